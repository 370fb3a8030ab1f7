"""Drop: delete the rows of days, channels or ingests from all tables, in one unit of commit.

A drop commits like an ingest: once its intent is written, this or any later process completes it.
Books and analytics of the affected channels and days are deleted completely, to be rebuilt from the
remaining data.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from pregao.errors import UsageError
from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.books.catalog import build_counts, guard_prefix
from pregao.lake.books.schemas import DERIVED
from pregao.lake.drop.accounting import (
    OpenTables,
    channel_days,
    count_messages,
    count_packets,
    drop_row,
    rest_of,
    selected_channel_days,
    templates_of,
)
from pregao.lake.drop.selection import (
    DropSelection,
    IngestRecord,
    named_ingests,
    read_ingests,
    refuse_needed,
)
from pregao.lake.ingest.history import REST, guard_key, load_ingest_state
from pregao.lake.ingest.protocols.umdf import (
    bundled_message_tables,
    instruments_without,
    message_table_name,
)
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.ingest.tables import table_specs
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage.commit_unit import DATE, CommitUnit, NewFile, ReplacedRows
from pregao.lake.storage.delta import LakeTable, arrow_schema, visible_files
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.overwrite import count_replaced
from pregao.lake.storage.transaction import until_committed
from pregao.umdf.templates import SECURITY_DEFINITIONS
from pregao.units import day_number

LEDGER = "ingests"
INSTRUMENTS = "instruments"
Where = tuple[tuple[str, tuple[int | str, ...]], ...]


@dataclass(slots=True)
class DropResult:
    """Result of a drop or a dry run."""

    unit_id: str
    rows: dict[str, int] = field(default_factory=dict)
    """Rows by table."""
    pairs: dict[date, set[int]] = field(default_factory=dict)
    """Affected channels by day."""
    ingests: list[str] = field(default_factory=list)
    """Ingests that were dropped completely."""
    shortened: list[str] = field(default_factory=list)
    """Ingests that were dropped in part."""
    partly: list[str] = field(default_factory=list)
    """Names of captures that were dropped in part."""
    left_alone: list[str] = field(default_factory=list)
    """Tables that Pregão did not write, left unchanged."""


def drop(lake: LakeStore, selection: DropSelection, *, dry_run: bool = False) -> DropResult:
    """Drop a selection; with ``dry_run``, only return what would be dropped."""
    selection.check()
    lake.require()
    lake.roll_forward()

    def attempt() -> DropResult | None:
        planned = _Plan(lake, selection)
        if dry_run:
            return planned.result
        if lake.commit(planned.unit()).committed:
            return planned.result
        # Another process has ingested or built something meanwhile: plan again.
        lake.roll_forward()
        return None

    return until_committed(lake.location, "other processes keep changing the data to drop", attempt)


class _Plan:
    """The rows that a drop removes and keeps, for the current state of the lake."""

    def __init__(self, lake: LakeStore, selection: DropSelection) -> None:
        self._lake = lake
        self._selection = selection
        # Read before the packets: an ingest committed in between is not listed, so it is kept.
        self._known = load_ingest_state(lake)
        self._ingests = read_ingests(lake)
        named = named_ingests(self._ingests, selection.ingests)
        refuse_needed(self._ingests, named)
        owners = {capture: one for one in self._ingests.values() for capture in one.captures}
        captures = {capture for one in named for capture in one.captures} if named else set(owners)
        self._tables = OpenTables(lake)
        self._meant = count_packets(self._tables, selection, captures)
        meant = {owners[capture].unit_id for capture in self._meant.all_captures}
        meant |= {one.unit_id for one in named}
        if not meant:
            raise UsageError(_nothing(self._tables, lake, selection))
        self._touched = [self._ingests[unit] for unit in sorted(meant)]
        self._names = [name for name in self._tables.names if name != LEDGER]
        self._days = {name: _days(self._tables[name]) for name in self._names}
        self._replaces = list(self._parts(named))
        self._gone: set[str] = set()
        self._rest: list[dict[str, object]] = []
        for ingest in self._touched:
            self._settle(ingest, whole=bool(named))
        self.result = self._result()

    def _parts(self, named: list[IngestRecord]) -> Iterator[ReplacedRows]:
        """Yield the rows to delete from each table and day."""
        for name in self._names:
            columns = frozenset(arrow_schema(self._tables[name]).names)
            for day in sorted(self._days[name]):
                yield from self._parts_of(name, day, columns, named)

    def _parts_of(
        self, name: str, day: date, columns: frozenset[str], named: list[IngestRecord]
    ) -> Iterator[ReplacedRows]:
        channels = tuple(sorted(self._meant.pairs.get(day, ())))
        captures = tuple(sorted(self._meant.captures.get(day, ())))
        on_channels: Where = (("channel", channels),)
        accounts = {protocol.account_table("gaps") for protocol in PROTOCOLS.values()}
        if name in accounts:
            units = tuple(one.unit_id for one in named)
            if units:
                yield ReplacedRows(name, day.isoformat(), (("unit_id", units),))
                on_channels = (("channel", channels), ("security_id", ()))
            if channels:
                yield ReplacedRows(name, day.isoformat(), on_channels)
        elif name in DERIVED or name in ANALYTICS or name == INSTRUMENTS:
            if channels:
                yield ReplacedRows(name, day.isoformat(), on_channels)
        elif "capture_id" in columns and captures:
            where: Where = (("capture_id", captures),)
            if self._selection.channels:
                where = (("channel", self._selection.channels), *where)
            yield ReplacedRows(name, day.isoformat(), where)

    def _settle(self, ingest: IngestRecord, *, whole: bool) -> None:
        """Plan the removal of an ingest's captures and its remaining rows in `ingests`."""
        captures = {row["capture_id"]: row for row in ingest.rows}
        lost = {capture: self._meant.of_capture(capture) for capture in captures}
        dropped = {
            c for c, row in captures.items() if whole or lost[c] >= (row["packets"] or 0) > 0
        }
        partly = {c: count for c, count in lost.items() if count and c not in dropped}
        if len(dropped) < len(captures):
            counts = self._counts(ingest, set(captures))
            self._rest += rest_of(ingest, self._selection, dropped, partly, counts)
        self._gone |= {
            captures[capture]["content_hash"]
            for capture in (*dropped, *partly)
            if not captures[capture]["content_hash"].startswith(REST)
        }

    def _counts(
        self, ingest: IngestRecord, captures: set[str]
    ) -> dict[str, dict[str, Counter[str]]]:
        """Count the packets and messages that an ingest loses."""
        found: dict[str, dict[str, Counter[str]]] = {}
        for protocol, counts in self._meant.packets.items():
            own: Counter[str] = Counter()
            for (capture, outcome), count in counts.items():
                if capture in captures:
                    own[outcome] += count
            found[protocol] = {"packets": own, "messages": Counter()}
        for protocol, template, table in templates_of(ingest.report):
            rows = count_messages(self._tables[table], self._selection, captures)
            found[protocol]["messages"][template] = rows.total()
        return found

    def _result(self) -> DropResult:
        left = {row["unit_id"] for row in self._rest}
        rows: Counter[str] = Counter()
        for part in self._replaces:
            location = self._lake.table_location(part.table)
            rows[part.table] += count_replaced(location, self._tables[part.table], part)
        ours = {part.table for part in self._replaces} | {spec.name for spec in table_specs()}
        ours |= {*DERIVED, *ANALYTICS}
        return DropResult(
            f"drop-{uuid.uuid4().hex}",
            {table: count for table, count in sorted(rows.items()) if count},
            self._meant.pairs,
            [one.unit_id for one in self._touched if one.unit_id not in left],
            [one.unit_id for one in self._touched if one.unit_id in left],
            sorted(
                str(row["name"]) for row in self._rest if str(row["content_hash"]).startswith(REST)
            ),
            [name for name in self._names if name not in ours],
        )

    def unit(self) -> CommitUnit:
        """Return the unit of commit; writes the remaining rows of `instruments`."""
        unit_id = self.result.unit_id
        channel_days = self._channel_days()
        guards = [
            guard_key(channel_day, self._known.generations.get(channel_day, 0))
            for channel_day in channel_days
        ]
        guards += [
            f"dropped {identity} {self._known.dropped.get(identity, 0)}"
            for identity in sorted(self._gone)
        ]
        builds = build_counts(self._lake)
        for day, channels in sorted(self._meant.pairs.items()):
            for channel in sorted(channels):
                guards.append(f"{guard_prefix(day, channel)}{builds[day, channel]}")
        changed = {channel_day: count + 1 for channel_day, count in channel_days.items()}
        row = drop_row(unit_id, self._selection, self._day(), self._gone, changed)
        units = tuple(one.unit_id for one in self._touched)
        ledger_days = {row[DATE] for one in self._touched for row in one.rows}
        replaces = self._replaces + [
            ReplacedRows(LEDGER, day.isoformat(), (("unit_id", units),))
            for day in sorted(ledger_days)
        ]
        return CommitUnit(
            unit_id,
            tuple(guards),
            tuple(self._instruments()),
            (*self._rest, row),
            tuple(replaces),
        )

    def _channel_days(self) -> dict[str, int]:
        """Return the channel days that change, with the number of their affected ingests."""
        found: Counter[str] = Counter()
        for ingest in self._touched:
            whole = bool(self._selection.ingests)
            found.update(
                channel_days(ingest.report)
                if whole
                else selected_channel_days(ingest.report, self._selection)
            )
        return dict(sorted(found.items()))

    def _day(self) -> date:
        days: list[date] = [row[DATE] for one in self._touched for row in one.rows]
        return max(days)

    def _instruments(self) -> Iterable[NewFile]:
        """Rewrite the instruments of the affected days from the definitions of other ingests."""
        if not self._selection.ingests:
            return ()
        captures = self._meant.all_captures
        written = []
        for day, channels in sorted(self._meant.pairs.items()):
            if day in self._days.get(INSTRUMENTS, ()):
                rows = instruments_without(
                    self._lake, _definition_tables(), day, channels, captures
                )
                if rows.num_rows:
                    written.append(
                        write_rows(self._lake.location, INSTRUMENTS, rows, day_number(day))
                    )
        return self._lake.new_files(written)


def _definition_tables() -> list[str]:
    templates = bundled_message_tables().templates
    return [message_table_name(templates[template].name) for template in SECURITY_DEFINITIONS]


def _days(table: LakeTable) -> Collection[date]:
    """Return the days for which a table has files."""
    actions = visible_files(table)
    column = f"partition.{DATE}"
    return set(actions[column].to_pylist()) if column in actions.column_names else set()


def _nothing(tables: OpenTables, lake: LakeStore, selection: DropSelection) -> str:
    """Return the message that nothing matches a selection, with the lake's days and channels."""
    counts = count_packets(tables, DropSelection(), None)
    if not counts.pairs:
        return f"{lake.location} has nothing to drop."
    days = sorted(counts.pairs)
    channels = sorted({channel for own in counts.pairs.values() for channel in own})
    return (
        f"{lake.location} has no data of {selection.words()}. It has the days "
        f"{', '.join(map(str, days))} and the channels {', '.join(map(str, channels))}."
    )
