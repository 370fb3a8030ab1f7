"""Accounting of a drop: counts of the selected packets and messages, and new rows of `ingests`.

Counts are per capture, by day and channel. The new rows are the remainder of each ingest, and the
record of the drop.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao._version import __version__
from pregao.lake.drop.selection import DropSelection, IngestRecord
from pregao.lake.ingest.history import REST, channel_day_key, coverage_by_protocol
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import LakeTable
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import iso_day

Counts = Mapping[str, Mapping[str, Counter[str]]]
"""Packets by outcome and messages by template that an ingest loses, by protocol."""


# --- Counts ---


@dataclass(slots=True)
class DropCounts:
    """Counts of what a selection covers."""

    packets: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """Packets per capture and outcome, by protocol."""
    pairs: dict[date, set[int]] = field(default_factory=dict)
    """Channels by day."""
    captures: dict[date, set[str]] = field(default_factory=dict)
    """Captures with packets of each day."""

    @property
    def all_captures(self) -> set[str]:
        """Captures of all days."""
        return {capture for own in self.captures.values() for capture in own}

    def of_capture(self, capture: str) -> int:
        """Return the number of selected packets of a capture."""
        return sum(
            count
            for counts in self.packets.values()
            for (own, _), count in counts.items()
            if own == capture
        )


class OpenTables(dict[str, LakeTable]):
    """Tables of a lake, each opened when it is first needed, and once."""

    def __init__(self, lake: LakeStore) -> None:
        self.names = lake.table_names()
        self._lake = lake

    def __missing__(self, name: str) -> LakeTable:
        table = self[name] = self._lake.delta(name)
        return table


def count_packets(
    tables: OpenTables, selection: DropSelection, captures: Collection[str] | None
) -> DropCounts:
    """Count the packets of a selection, limited to ``captures`` unless that is None."""
    meant = DropCounts()
    for protocol in PROTOCOLS.values():
        table = protocol.account_table("packets")
        if table not in tables.names:  # the lake is older than the protocol
            continue
        counts: Counter[tuple[str, str]] = Counter()
        columns = ["capture_id", "outcome", "channel", DATE]
        for row in _grouped(tables[table], columns, chosen(selection, captures)):
            counts[row["capture_id"], row["outcome"]] += row["count_all"]
            meant.captures.setdefault(row[DATE], set()).add(row["capture_id"])
            if row["channel"] is not None:
                meant.pairs.setdefault(row[DATE], set()).add(row["channel"])
        meant.packets[protocol.name] = counts
    return meant


def count_messages(
    table: LakeTable, selection: DropSelection, captures: Collection[str]
) -> Counter[str]:
    """Return the number of selected rows of a message table by capture."""
    counts: Counter[str] = Counter()
    for row in _grouped(table, ["capture_id"], chosen(selection, captures)):
        counts[row["capture_id"]] += row["count_all"]
    return counts


def chosen(selection: DropSelection, captures: Collection[str] | None) -> Any:
    """Return the filter on capture, channel and date; None if it selects every row."""
    conditions = []
    if selection.dates:
        conditions.append(pc.field(DATE).isin(pa.array(selection.dates, pa.date32())))
    if selection.channels:
        conditions.append(pc.field("channel").isin(pa.array(selection.channels, pa.int16())))
    if captures is not None:
        conditions.append(pc.field("capture_id").isin(pa.array(sorted(captures), pa.string())))
    return _all(conditions)


def _all(conditions: Iterable[Any]) -> Any:
    result = None
    for condition in conditions:
        result = condition if result is None else result & condition
    return result


def _grouped(table: LakeTable, columns: list[str], condition: Any) -> list[dict[str, Any]]:
    parts = []
    for batch in table.to_pyarrow_dataset().to_batches(columns=columns, filter=condition):
        if batch.num_rows:
            rows = pa.Table.from_batches([batch])
            parts.append(rows.group_by(columns).aggregate([([], "count_all")]))
    found: list[dict[str, Any]] = [row for part in parts for row in part.to_pylist()]
    return found


# --- Rows of `ingests` ---


def channel_days(report: Mapping[str, Any]) -> set[str]:
    """Return the guard keys of the channel days for which an ingest received packets."""
    return {
        channel_day_key(protocol, channel_day)
        for protocol, report_of_protocol in (coverage_by_protocol(report) if report else {}).items()
        for channel_day in report_of_protocol["coverage"]
    }


def selected_channel_days(report: Mapping[str, Any], selection: DropSelection) -> set[str]:
    """Return the guard keys of an ingest's channel days that a selection covers."""
    return {
        channel_day_key(protocol, channel_day)
        for protocol, report_of_protocol in (coverage_by_protocol(report) if report else {}).items()
        for channel_day in report_of_protocol["coverage"]
        if _is_meant(channel_day, selection)
    }


def _is_meant(channel_day: str, selection: DropSelection) -> bool:
    day, channel = channel_day.split("/")[:2]
    return (not selection.dates or date.fromisoformat(iso_day(int(day))) in selection.dates) and (
        not selection.channels or int(channel) in selection.channels
    )


def rest_of(
    ingest: IngestRecord,
    selection: DropSelection,
    dropped: Collection[str],
    partly: Mapping[str, int],
    counts: Counts,
) -> list[dict[str, Any]]:
    """Return the remaining rows of an ingest, without the ``dropped`` captures.

    ``partly`` has the number of dropped packets by capture. A capture dropped in part loses its
    identity, so that it can be ingested again.
    """
    report = copy.deepcopy(dict(ingest.report))
    report["captures"] = [
        _rest_of_capture(part, partly)
        for part in report.get("captures", ())
        if part.get("capture_id") not in dropped
    ]
    if "capture_count" in report:
        report["capture_count"] -= len(dropped)
    _subtract(report, counts)
    for part in coverage_by_protocol(report).values():
        for name in ("coverage", "feeds"):
            kept = {k: v for k, v in part.get(name, {}).items() if not _is_meant(k, selection)}
            part[name] = kept  # type: ignore[index]
    rows = [dict(row) for row in ingest.rows if row["capture_id"] not in dropped]
    for row in rows:
        row["report"] = row["messages"] = row["rejected"] = None
        if row["capture_id"] in partly:
            row["packets"] -= partly[row["capture_id"]]
            row["plain_fingerprint"] = row["range_hash"] = None
            if not row["content_hash"].startswith(REST):
                row["content_hash"] = REST + row["content_hash"]
    rows[0]["report"] = json.dumps(report)
    rows[0]["messages"] = report["messages"]["decoded"]
    rows[0]["rejected"] = report["packets"]["rejected"]
    return rows


def _rest_of_capture(stored: Mapping[str, Any], partly: Mapping[str, int]) -> dict[str, Any]:
    # Newer reports have the identity only in the rows.
    identity = stored.get("content_hash", REST)
    if stored.get("capture_id") not in partly or identity.startswith(REST):
        return dict(stored)
    remaining = {k: v for k, v in stored.items() if k not in ("plain_fingerprint", "range_hash")}
    return remaining | {"content_hash": REST + identity}


def _subtract(report: dict[str, Any], counts: Counts) -> None:
    """Subtract dropped counts from a report's totals and from those of each protocol."""
    for protocol, parts in counts.items():
        accounts = [report]
        if protocol in report.get("protocols", {}):
            accounts.append(report["protocols"][protocol])
        elif protocol != first_protocol().name:
            continue
        for account in accounts:
            for outcome, count in parts["packets"].items():
                account["packets"][outcome] -= count
            messages = account["messages"]
            for template, count in parts["messages"].items():
                messages["by_template"][template] -= count
                messages["decoded"] -= count


def templates_of(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the protocol, template and table of each kind of message of an ingest."""
    accounts = report.get("protocols", {first_protocol().name: report})
    for name, account in accounts.items():
        for template in account["messages"]["by_template"]:
            yield name, template, PROTOCOLS[name].table_of(template)


def drop_row(
    unit_id: str,
    selection: DropSelection,
    day: date,
    captures: Collection[str],
    channel_days: dict[str, int],
) -> dict[str, Any]:
    """Return the record of a drop, in the form of an ingest without packets.

    ``captures`` may be ingested again; ``channel_days`` has the number of changes by channel day.
    """
    nothing = {
        "packets": dict.fromkeys(("decoded", "duplicate", "rejected", "filtered"), 0),
        "messages": {"decoded": 0, "unknown_template": 0, "rejected": 0, "by_template": {}},
    }
    report = {
        "unit_id": unit_id,
        "committed": True,
        **nothing,
        "protocols": {},
        "captures": [],
        "roles": [],
        "coverage": {},
        "feeds": {},
        "notes": [f"dropped: {selection.words()}"],
        "dropped": {"captures": sorted(captures), "places": channel_days},
    }
    return {
        "capture_id": None,
        "unit_id": unit_id,
        "content_hash": f"drop:{unit_id}",
        "name": f"dropped: {selection.words()}",
        "size": 0,
        "fingerprint": "",
        "packets": 0,
        "messages": 0,
        "rejected": 0,
        "schema_versions": [],
        "report": json.dumps(report),
        "pregao_version": __version__,
        DATE: day,
    }
