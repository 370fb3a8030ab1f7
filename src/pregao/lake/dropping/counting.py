"""Counts of the selected packets and messages per capture, by day and channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.dropping.selection import DropSelection
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.store.lake import LakeStore
from pregao.lake.store.unit import DATE


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


def count_packets(
    lake: LakeStore, selection: DropSelection, captures: Collection[str] | None
) -> DropCounts:
    """Count the packets of a selection, limited to ``captures`` unless that is None."""
    meant = DropCounts()
    existing = set(lake.table_names())
    for protocol in PROTOCOLS.values():
        table = protocol.account_table("packets")
        if table not in existing:  # the lake is older than the protocol
            continue
        counts: Counter[tuple[str, str]] = Counter()
        columns = ["capture_id", "outcome", "channel", DATE]
        for row in _grouped(lake, table, columns, chosen(selection, captures)):
            counts[row["capture_id"], row["outcome"]] += row["count_all"]
            meant.captures.setdefault(row[DATE], set()).add(row["capture_id"])
            if row["channel"] is not None:
                meant.pairs.setdefault(row[DATE], set()).add(row["channel"])
        meant.packets[protocol.name] = counts
    return meant


def count_messages(
    lake: LakeStore, table: str, selection: DropSelection, captures: Collection[str]
) -> Counter[str]:
    """Return the number of selected rows of a message table by capture."""
    counts: Counter[str] = Counter()
    for row in _grouped(lake, table, ["capture_id"], chosen(selection, captures)):
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


def _grouped(
    lake: LakeStore, table: str, columns: list[str], condition: Any
) -> list[dict[str, Any]]:
    parts = []
    for batch in (
        lake.delta(table).to_pyarrow_dataset().to_batches(columns=columns, filter=condition)
    ):
        if batch.num_rows:
            rows = pa.Table.from_batches([batch])
            parts.append(rows.group_by(columns).aggregate([([], "count_all")]))
    found: list[dict[str, Any]] = [row for part in parts for row in part.to_pylist()]
    return found
