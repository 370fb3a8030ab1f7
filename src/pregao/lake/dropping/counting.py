"""How many packets and messages of each capture are meant, by day and channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.dropping.selection import Selection
from pregao.lake.ingest import PROTOCOLS
from pregao.lake.store import DATE, Lake


@dataclass(slots=True)
class Meant:
    """What is meant, counted."""

    packets: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    """By protocol: how many packets there are of a capture and an outcome."""
    pairs: dict[date, set[int]] = field(default_factory=dict)
    """The channels of each day."""
    captures: dict[date, set[str]] = field(default_factory=dict)
    """The captures with packets of each day."""

    @property
    def all_captures(self) -> set[str]:
        """The captures over all days."""
        return {capture for own in self.captures.values() for capture in own}

    def of_capture(self, capture: str) -> int:
        """How many packets of a capture are meant."""
        return sum(
            count
            for counts in self.packets.values()
            for (own, _), count in counts.items()
            if own == capture
        )


def count_packets(lake: Lake, selection: Selection, captures: Collection[str] | None) -> Meant:
    """Count the packets of a selection; ``captures`` are those of the ingests it names."""
    meant = Meant()
    there = set(lake.table_names())
    for protocol in PROTOCOLS.values():
        table = protocol.account_table("packets")
        if table not in there:  # the lake is older than the protocol
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
    lake: Lake, table: str, selection: Selection, captures: Collection[str]
) -> Counter[str]:
    """How many rows of a table of messages are meant, by capture."""
    found: Counter[str] = Counter()
    for row in _grouped(lake, table, ["capture_id"], chosen(selection, captures)):
        found[row["capture_id"]] += row["count_all"]
    return found


def chosen(selection: Selection, captures: Collection[str] | None) -> Any:
    """The condition for rows that have a capture, a channel and a date; None for all."""
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


def _grouped(lake: Lake, table: str, columns: list[str], condition: Any) -> list[dict[str, Any]]:
    parts = []
    for batch in (
        lake.delta(table).to_pyarrow_dataset().to_batches(columns=columns, filter=condition)
    ):
        if batch.num_rows:
            rows = pa.Table.from_batches([batch])
            parts.append(rows.group_by(columns).aggregate([([], "count_all")]))
    found: list[dict[str, Any]] = [row for part in parts for row in part.to_pylist()]
    return found
