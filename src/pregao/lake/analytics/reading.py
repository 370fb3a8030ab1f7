"""Tables of a lake that analytics are built from: of a day, a channel, or some instruments.

The driver lists the files (`LakeFiles`); tasks read their rows (`LakeDay`).
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pregao.lake.analytics.legacy import (
    LEGACY_ENTRIES,
    LEGACY_LIST,
    LEGACY_PACKETS,
    LEGACY_SNAPSHOTS,
    LEGACY_SOURCES,
    LEGACY_TABLES,
    LegacyExclusions,
    left_out,
    legacy_instruments,
    legacy_messages,
    legacy_shown,
    legacy_states,
    legacy_venue_trades,
)
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.columns import Column
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.row_groups import ALL
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.coverage import day_coverage, last_missing
from pregao.lake.books.planner import plan_day
from pregao.lake.books.reader import SecurityRange
from pregao.lake.books.task import DayInputs
from pregao.lake.ingest.protocols.umdf import (
    OF_TRADES,
    TRADE_DATE,
    bundled_message_tables,
    message_table_name,
)
from pregao.lake.sql.table_files import TableFiles
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.streams import ONLY_SNAPSHOT, Stream
from pregao.umdf.templates import (
    CHANNEL_RESET,
    DELETED,
    IMPLIED,
    IMPLIED_SINCE,
    RECOVERY,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SEQUENCE,
    SEQUENCE_RESET,
    SNAPSHOT_HEADER,
)

INSTRUMENTS = "instruments"
INSTRUMENT = ("channel", "security_id")
"""Key of an instrument: two channels may have the same security ID."""
INGESTS = "ingests"
PACKETS = "packets"
_OF_CHANNEL = frozenset({SECURITY_GROUP_PHASE, CHANNEL_RESET})
"""Templates whose messages concern all instruments of a group or channel."""
_ENTRYPOINT = "ep_"
_VERSIONS = "channel smallint, first_ns bigint, version int"


def is_entrypoint(table: str) -> bool:
    """Whether a table has messages of order entry."""
    return table.startswith(_ENTRYPOINT)


def message_table(template: int) -> str:
    """Return the name of a template's table."""
    return message_table_name(bundled_message_tables().templates[template].name)


def incremental_templates() -> tuple[int, ...]:
    """Return the templates of numbered messages on the incremental stream."""
    outside = {SEQUENCE, SEQUENCE_RESET, *ONLY_SNAPSHOT}
    return tuple(sorted(set(bundled_message_tables().templates) - outside))


def event_key() -> Column:
    """Return the event key of a message: a number that compares with event numbers.

    An event's number is the key of its first message.
    """
    return (
        F.col("sequence_version").cast("bigint") * EVENT_VERSION
        + F.col("sequence_number") * EVENT_NUMBER
        + F.col("index_in_packet")
    )


def bit(column: str, mask: int) -> Column:
    """Whether any bit of a mask is set in a column."""
    return F.col(column).bitwiseAND(mask) != 0


def is_recovery() -> Column:
    """Whether the message was resent to restore a book."""
    return F.coalesce(bit("match_event_indicator", RECOVERY), F.lit(False))


def withdrawn() -> Column:
    """Whether the message withdraws a statistic."""
    return F.col("md_update_action").isin(*sorted(DELETED))


def one_name(column: str, names: Mapping[str, str]) -> Column:
    """Return a column of names in which equal values of all schema versions have one name."""
    found = F.col(column)
    for other, name in names.items():
        if other != name:
            found = F.when(F.col(column) == other, F.lit(name)).otherwise(found)
    return found


_DATED = frozenset(map(message_table, OF_TRADES))


class LakeFiles:
    """Files of a lake's tables; each log is read once, later ingests are not visible."""

    def __init__(self, lake: LakeStore) -> None:
        self.lake = lake
        self._names = frozenset(lake.table_names())
        self._tables: dict[str, TableFiles] = {}
        self._paths: dict[str, dict[datetime.date, list[str]]] = {}
        self._legacy: dict[datetime.date, LegacyExclusions] = {}

    def days(self) -> list[datetime.date]:
        """Return the days with packets, of either feed."""
        return sorted({day for name in ("packets", LEGACY_PACKETS) for day in self.paths(name)})

    def paths(self, name: str) -> dict[datetime.date, list[str]]:
        """Return the paths of a table's files by day; none if the table does not exist."""
        if name not in self._paths:
            found: dict[datetime.date, list[str]] = {}
            if name in self._names:
                table = self._table(name)
                days = table.actions[f"partition.{DATE}"].to_pylist()
                for path, day in zip(table.actions["path"].to_pylist(), days, strict=True):
                    found.setdefault(day, []).append(path)
            self._paths[name] = found
        return self._paths[name]

    def replaced(self, name: str, day: datetime.date, paths: Iterable[str]) -> None:
        """Note the files that this build has committed in place of a table's day."""
        self.paths(name)[day] = list(paths)
        self._tables.pop(name, None)

    def fingerprint(self, day: datetime.date, names: Iterable[str], *more: Any) -> int:
        """Return a number that changes with a day's files of tables or any other argument."""
        digest = hashlib.sha256(repr(more).encode())
        for name in sorted(names):
            digest.update(repr((name, sorted(self.paths(name).get(day, ())))).encode())
        if not _DATED.isdisjoint(names):
            for name, files in sorted(self._same_trades(day).items()):
                digest.update(repr((name, files.paths())).encode())
        return int.from_bytes(digest.digest()[:8], "big") >> 2

    def channels(self, day: datetime.date, names: Iterable[str]) -> list[int]:
        """Return the channels of which tables have rows on a day."""
        found: set[int] = set()
        for name in names:
            if day not in self.paths(name):
                continue
            table = self._table(name).of_day(day, ("channel",))
            if "channel" not in table.declared.names:
                continue
            for action in table.actions.to_pylist():
                low, high = action.get("min.channel"), action.get("max.channel")
                if low is not None and low == high:
                    found.add(int(low))
                elif action["num_records"]:
                    found |= _channels_of(table.location.join(action["path"]))
        return sorted(found)

    def day(self, day: datetime.date, names: Iterable[str] | None = None) -> DayTables:
        """Return the tables that a day's tasks read; by default all."""
        wanted = self._names if names is None else self._names.intersection(names)
        tables = {name: self._table(name).of_day(day, INSTRUMENT) for name in sorted(wanted)}
        return DayTables(
            self.lake.location,
            day,
            tables,
            self._captures,
            self._exclusions(day),
            self._same_trades(day) if wanted.intersection(_DATED) else {},
        )

    def _same_trades(self, day: datetime.date) -> dict[str, TableFiles]:
        """Return the files of other days that may have publications or busts of a day's trades.

        Tables are cut by sending date; a trade may be corrected or busted on a later date.
        """
        dates: list[datetime.date] = []
        for name in self._names.intersection(_DATED):
            own = self._table(name).of_day(day, (TRADE_DATE,)).actions
            for end in (f"min.{TRADE_DATE}", f"max.{TRADE_DATE}"):
                if end in own.column_names:
                    dates += [date for date in own[end].to_pylist() if date is not None]
        found = {}
        for name in self._names.intersection(_DATED) if dates else ():
            others = self._table(name).of_other_days(day, (*INSTRUMENT, TRADE_DATE))
            if f"min.{TRADE_DATE}" in others.actions.column_names:
                same = others.within(TRADE_DATE, min(dates), max(dates))
                known = pc.is_valid(same.actions[f"min.{TRADE_DATE}"])
                same = replace(same, actions=same.actions.filter(known))
                if same.actions.num_rows:
                    found[name] = same
        return found

    def _exclusions(self, day: datetime.date) -> LegacyExclusions | None:
        if not any(day in self.paths(name) for name in LEGACY_TABLES):
            return None
        if day not in self._legacy:
            self._legacy[day] = left_out(self.lake, day)
        return self._legacy[day]

    @cached_property
    def _captures(self) -> dict[str, CaptureFacts]:
        rows = self.lake.delta(INGESTS).to_pyarrow_table(
            columns=["capture_id", "name", "schema_versions"]
        )
        return {
            row["capture_id"]: CaptureFacts(
                row["name"],
                any(version < IMPLIED_SINCE for version in row["schema_versions"] or ()),
            )
            for row in rows.to_pylist()
        }

    def _table(self, name: str) -> TableFiles:
        if name not in self._tables:
            self._tables[name] = TableFiles.from_lake(self.lake, name)
        return self._tables[name]


def _channels_of(file: Location) -> set[int]:
    with pq.ParquetFile(file.path, filesystem=file.filesystem) as opened:
        column = opened.read(columns=["channel"], use_threads=False).column(0)
    return {int(channel) for channel in column.unique().to_pylist() if channel is not None}


class CaptureFacts(NamedTuple):
    """Facts about a capture."""

    name: str | None
    before_implied: bool
    """Whether it has messages of versions in which the implied bit had another meaning."""


@dataclass(frozen=True, slots=True)
class DayTables:
    """Tables of a day, as they were when the build was planned; sent to the tasks."""

    lake: Location
    date: datetime.date
    tables: Mapping[str, TableFiles]
    captures: Mapping[str, CaptureFacts]
    excluded: LegacyExclusions | None
    """Exclusions of the legacy feed; None on a day without it."""
    same_trades: Mapping[str, TableFiles] = field(default_factory=dict)
    """Files of other days that may have publications or busts of this day's trades."""


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """Facts about a whole channel that the tasks of its instruments need; sent to them."""

    versions: tuple[tuple[int, int], ...]
    """Sequence versions of the incremental stream: first sending time, and version."""
    lines: Any
    """Timeline of the states of its groups and instruments."""


class LakeDay:
    """One day of a lake's tables: of all channels, of one, or of some instruments of one."""

    def __init__(
        self,
        session: LocalSession,
        tables: DayTables,
        channel: int | None = None,
        part: SecurityRange | None = None,
        facts: ChannelFacts | None = None,
        books: Sequence[DayInputs] = (),
    ) -> None:
        self.session = session
        self.tables = tables
        self.date = tables.date
        self.channel = channel
        self.part = part
        self.facts = facts
        self.books = books
        """Inputs of the channels' books, if already known."""
        self.span = ALL
        """Events, or times of events, that the task is about."""
        self._frames: dict[tuple[str, bool], DataFrame] = {}
        self._made: set[str] = set()
        self._once: dict[Hashable, DataFrame] = {}

    def has(self, name: str) -> bool:
        """Whether a table has rows of this day."""
        table = self.tables.tables.get(name)
        return name in self._made or (table is not None and table.actions.num_rows > 0)

    def files(self, name: str) -> TableFiles:
        """Return the files that may have rows of the channel."""
        files = self.tables.tables[name]
        if self.channel is None:
            return files
        return files.within("channel", self.channel, self.channel)

    def table(self, name: str, *, of_instruments: bool = True) -> DataFrame:
        """Return a table's rows.

        If not ``of_instruments``, rows of the whole channel are included.
        """
        key = name, of_instruments
        if key not in self._frames:
            self._frames[key] = self._read(self.tables.tables[name], of_instruments)
        return self._frames[key]

    def _read(self, files: TableFiles, of_instruments: bool) -> DataFrame:
        bounds: dict[str, tuple[int, int]] = {}
        names = files.declared.names
        # Sessions of order entry belong to no channel of the market data.
        if self.channel is not None and "channel" in names and not is_entrypoint(files.name):
            bounds["channel"] = self.channel, self.channel
        if self.part is not None and of_instruments and "security_id" in names:
            bounds["security_id"] = self.part.first, self.part.last
        for name, (first, last) in bounds.items():
            files = files.within(name, first, last)
        found = self.session.table(files)
        for name, (first, last) in bounds.items():
            found = found.where((F.col(name) >= first) & (F.col(name) <= last))
        return found

    def made(self, name: str, frame: DataFrame) -> DataFrame:
        """Evaluate a new table, and use its rows in place of the stored ones."""
        self._made.add(name)
        self._frames[name, True] = self.keep(frame)
        return self._frames[name, True]

    def keep(self, frame: DataFrame) -> DataFrame:
        """Evaluate the rows once, regardless of the number of uses."""
        return frame.persist()

    def query(self, statement: str, values: Mapping[str, Any], **views: DataFrame) -> DataFrame:
        """Return the rows of an SQL statement over frames, which it reads as views by name.

        ``values`` are its parameters.
        """
        return self.session.query(statement, views, values)

    def once(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the frame of a name, built at its first use."""
        if name not in self._once:
            self._once[name] = make()
        return self._once[name]

    def is_implied(self, messages: DataFrame) -> Column:
        """Whether it is an implied order; null where the schema version has no bit for it.

        Rows of lakes without the version column use the version of their capture.
        """
        flagged = by_capture = bit("match_event_indicator", IMPLIED)
        older = [own for own, capture in self.tables.captures.items() if capture.before_implied]
        if older:
            by_capture = F.when(~F.col("capture_id").isin(older), flagged)
        if "schema_version" not in messages.columns:
            return by_capture
        version = F.col("schema_version")
        return F.when(version.isNull(), by_capture).when(version >= IMPLIED_SINCE, flagged)

    def book_inputs(self) -> Sequence[DayInputs]:
        """Return the inputs of the channels' books."""
        if not self.books:
            catalog = FileCatalog(LakeStore(self.tables.lake))
            channels = catalog.channels(self.date)
            self.books = [
                plan_day(catalog, self.date, channel)
                for channel in channels
                if self.channel in (None, channel)
            ]
        return self.books

    def messages(self, template: int) -> DataFrame:
        """Return a template's messages of the incremental stream, with their event keys."""
        found, older = self.binary_messages(template), self.legacy_messages(template)
        return found if older is None else found.unionByName(older, allowMissingColumns=True)

    def binary_messages(self, template: int) -> DataFrame:
        """Return those of the binary feed."""
        found = self.table(message_table(template), of_instruments=template not in _OF_CHANNEL)
        return _incremental(found)

    def dated_messages(self, template: int) -> DataFrame:
        """Return the messages of trades, with those of other days that may be of the same ones.

        ``date`` is the day on which each was sent; null on this day's legacy feed.
        """
        found, files = self.messages(template), self.tables.same_trades.get(message_table(template))
        if files is None:
            return found
        others = _incremental(self._read(files, True))
        return found.unionByName(others, allowMissingColumns=True)

    def legacy_messages(self, template: int) -> DataFrame | None:
        """Return those of the legacy feed that the binary feed lacks; None without any."""
        source = LEGACY_SOURCES.get(template)
        if source is None or not self.has(source):
            return None
        found = self.once(
            (self.date, template),
            lambda: legacy_messages(
                self.table(source, of_instruments=template not in _OF_CHANNEL),
                template,
                self.excluded,
            ),
        )
        return found.withColumn("place", event_key())

    def venue_trades(self, template: int) -> DataFrame:
        """Return the trades, forwards or busts outside the electronic market, with ``venue``.

        Only the legacy feed has any.
        """
        source = LEGACY_SOURCES[template]
        if not self.has(source):
            nothing = self.binary_messages(template).where(F.lit(False))
            return nothing.withColumn("venue", F.lit(None).cast("string"))
        found = legacy_venue_trades(self.table(source), template, self.excluded)
        return found.withColumn("place", event_key())

    @cached_property
    def legacy_channels(self) -> list[int]:
        """Channels that are read from the legacy feed."""
        there = self.has(LEGACY_ENTRIES) or self.has(LEGACY_SNAPSHOTS)
        return sorted(self.excluded.slots) if there else []

    @property
    def excluded(self) -> LegacyExclusions:
        """Exclusions of the legacy feed."""
        assert self.tables.excluded is not None, "a day without the legacy feed has none"
        return self.tables.excluded

    def snapshots(self, template: int) -> DataFrame:
        """Return a template's messages of snapshots; of the legacy feed, phases and states.

        These have the event key in ``place`` that their snapshot is as of.
        """
        rows = self.table(message_table(template), of_instruments=template not in _OF_CHANNEL)
        found = rows.where(F.col("stream") == Stream.SNAPSHOT.value)
        if template not in (SECURITY_STATUS, SECURITY_GROUP_PHASE):
            return found
        if not self.has(LEGACY_SNAPSHOTS):
            return found
        states = self.once(
            (self.date, LEGACY_SNAPSHOTS),
            lambda: legacy_states(self.table(LEGACY_SNAPSHOTS), self.excluded),
        )
        if template == SECURITY_STATUS:
            separate = F.col("security_trading_event").isNotNull()
            shown = states.where(separate).drop("trading_session_sub_id")
        else:
            phases = states.where(F.col("trading_session_sub_id").isNotNull())
            grouped = phases.join(F.broadcast(self.instruments().drop("symbol")), list(INSTRUMENT))
            names = ("channel", "stream", "sending_time_ns", "place", "trading_session_sub_id")
            shown = grouped.select(*names, "security_group")
        return found.unionByName(shown, allowMissingColumns=True)

    def in_first_snapshots(self, template: int) -> DataFrame:
        """Return a template's messages in the first snapshot of each instrument.

        ``place`` is the event key that the snapshot is as of: after the last packet in its header.
        """
        header_fields = ("sequence_version", "last_sequence_version", "last_msg_seq_num_processed")
        headers = (
            self.snapshots(SNAPSHOT_HEADER)
            .groupBy(*INSTRUMENT)
            .agg(
                F.min_by(F.struct("sending_time_ns", *header_fields), "sending_time_ns").alias(
                    "header"
                )
            )
            .join(F.broadcast(self._versions()), "channel", "left")
        )
        begun = F.filter("versions", lambda one: one["first_ns"] <= F.col("header.sending_time_ns"))
        version = F.coalesce(
            "header.last_sequence_version", F.try_element_at(begun, F.lit(-1))["version"]
        )
        packet = version.cast("bigint") * EVENT_VERSION
        packet = packet + F.col("header.last_msg_seq_num_processed") * EVENT_NUMBER
        placed = headers.select(
            *INSTRUMENT,
            F.col("header.sequence_version").alias("sequence_version"),
            (packet + EVENT_NUMBER - 1).alias("place"),
        )
        # The messages of a snapshot are in the loop of its header.
        found = self.snapshots(template).join(placed, [*INSTRUMENT, "sequence_version"])
        if not self.has(LEGACY_SNAPSHOTS):
            return found
        shown = legacy_shown(self.table(LEGACY_SNAPSHOTS), template, self.excluded)
        return found.unionByName(shown, allowMissingColumns=True)

    def _versions(self) -> DataFrame:
        """Return the sequence versions of each channel's incremental stream, with start times.

        Below schema version 15 snapshots do not state theirs: it is the latest at that time.
        """
        if self.facts is None:
            begun = version_starts(self)
        else:
            rows = [(self.channel, *each) for each in self.facts.versions]
            begun = self.session.createDataFrame(rows, _VERSIONS)
        return begun.groupBy("channel").agg(
            F.sort_array(F.collect_list(F.struct("first_ns", "version"))).alias("versions")
        )

    def lost_packets(self) -> DataFrame:
        """Return ``place``, the event key after the last packet of each loss, by channel."""
        lake = LakeStore(self.tables.lake)
        catalog = FileCatalog(lake)
        channels = catalog.channels(self.date) if self.channel is None else [self.channel]
        rows = []
        for channel in channels:
            protocol = catalog.protocol(self.date, channel)
            coverage = day_coverage(lake, self.date, channel, protocol)
            for packet in last_missing(lake, self.date, channel, coverage):
                key = packet.sequence_version * EVENT_VERSION
                rows.append((channel, key + (packet.sequence_number + 1) * EVENT_NUMBER - 1))
        return self.session.createDataFrame(rows, "channel smallint, place bigint")

    def instruments(self) -> DataFrame:
        """Return the instruments with their symbols and groups, of both feeds."""
        found = self.table(INSTRUMENTS).select(*INSTRUMENT, "symbol", "security_group")
        if self.has(LEGACY_LIST):
            listed = self.once(
                (self.date, LEGACY_LIST),
                lambda: legacy_instruments(self.table(LEGACY_LIST), self.excluded),
            )
            found = found.unionByName(listed)
        return found

    def with_symbols(self, frame: DataFrame) -> DataFrame:
        """Add the symbol of each row's instrument, where known."""
        symbols = self.instruments().drop("security_group")
        return frame.join(F.broadcast(symbols), list(INSTRUMENT), "left")


def _incremental(found: DataFrame) -> DataFrame:
    own = found.where(F.col("stream") == Stream.INCREMENTAL.value)
    return own.withColumn("place", event_key())


def version_starts(day: LakeDay) -> DataFrame:
    """Return channel, first sending time and version of the incremental stream's versions."""
    return (
        day.table(PACKETS)
        .where(F.col("stream") == Stream.INCREMENTAL.value)
        .groupBy("channel", F.col("sequence_version").alias("version"))
        .agg(F.min("sending_time_ns").alias("first_ns"))
        .select("channel", "first_ns", "version")
    )
