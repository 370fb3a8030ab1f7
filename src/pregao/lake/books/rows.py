"""Rows of the tables of books: states, audits, gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.book.state import State
from pregao.book.replay import BookKind
from pregao.feed.replay.audit import RESULTS, Audit
from pregao.feed.columns import Numbers
from pregao.feed.replay.day import ChannelDay
from pregao.feed.replay.outcomes import BookOrigins
from pregao.feed.packet_keys import packet_of
from pregao.feed.replay.snapshots import Snapshots
from pregao.feed.replay.outcomes import StaleSpan
from pregao.lake.books.columns import named, nulled
from pregao.lake.books.tables import BOOKS, GAPS_SPEC
from pregao.lake.store.parquet import stored_schema

_KINDS = {
    BookKind.PRIORITY: "priority", BookKind.POSITION: "position", BookKind.DEPTH: "price",
}  # fmt: skip


class BookCounts:
    """Number of ticks and checkpoints of the instruments of a task, and their last states."""

    def __init__(self, count: int) -> None:
        self.ticks = np.zeros(count, np.int64)
        self.checkpoints = np.zeros(count, np.int64)
        self.state = np.full(count, int(State.EMPTY), np.int64)

    def total(self, origins: BookOrigins) -> Counter[str]:
        """Return the totals of all instruments."""
        return Counter(
            instruments=len(origins.securities),
            messages=int(origins.messages.sum()),
            updates=int(origins.updates.sum()),
            ticks=int(self.ticks.sum()),
            checkpoints=int(self.checkpoints.sum()),
            stale=int((self.state == State.STALE).sum()),
        )


def book_rows(
    origins: BookOrigins,
    counts: BookCounts,
    channel: int,
    symbols: list[str | None],
    day: ChannelDay,
    unit_id: str,
    snapshots: Counter[int],
    different: Counter[int],
    gaps: Counter[int],
    reasons: dict[int, str],
) -> Any:
    """Return the rows of `books`; the counters are by instrument."""
    version, number = packet_of(origins.place, day.base)
    rows = []
    for rank, security in enumerate(origins.securities.tolist()):
        state = State(int(counts.state[rank]))
        known = origins.origin[rank] is not None
        rows.append(
            {
                "channel": channel,
                "security_id": security,
                "symbol": symbols[rank],
                "kind": _KINDS[day.kind],
                "market_depth": day.market_depth,
                "origin": origins.origin[rank],
                "origin_version": int(version[rank]) if known else None,
                "origin_number": int(number[rank]) if known else None,
                "messages": int(origins.messages[rank]),
                "updates": int(origins.updates[rank]),
                "ticks": int(counts.ticks[rank]),
                "checkpoints": int(counts.checkpoints[rank]),
                "snapshots": snapshots[security],
                "differences": different[security],
                "gaps": gaps[security],
                "state": state.name.lower(),
                "reason": reasons.get(security) if state is State.STALE else None,
                "unit_id": unit_id,
            }
        )
    return pa.Table.from_pylist(rows, schema=stored_schema(BOOKS.schema))


def gap_rows(spans: Sequence[StaleSpan], channel: int, base: int, unit_id: str) -> Any:
    """Return stale spans as rows of `gaps`."""

    def packet(serial: int | None) -> tuple[int | None, int | None]:
        if serial is None:
            return None, None
        version, number = packet_of(np.array([serial], np.int64), base)
        return int(version[0]), int(number[0])

    rows = []
    for span in spans:
        version, number = packet(span.message_serial)
        closed_version, closed_number = packet(span.healed_at)
        rows.append(
            {
                "channel": channel,
                "security_id": span.security_id,
                "sequence_version": version,
                "feed": None,
                "first_missing": span.first_missing,
                "last_missing": span.last_missing,
                "closed_by": span.healed_by,
                "capture_time_ns": span.capture_time_ns,
                "unit_id": unit_id,
                "sequence_number": number,
                "closed_sequence_version": closed_version,
                "closed_sequence_number": closed_number,
                "reason": span.reason,
            }
        )
    return pa.Table.from_pylist(rows, schema=stored_schema(GAPS_SPEC.schema))


def audit_columns(
    snapshots: Snapshots,
    audit: Audit,
    chosen: Numbers,
    channel: int,
    rank: Numbers,
    symbols: list[str | None],
) -> dict[str, Any]:
    """Return the columns of `book_audit` for the chosen snapshots."""
    loop = snapshots.loop
    result = np.array(audit.result, np.int64)[chosen]
    return {
        "channel": pa.array(np.full(len(chosen), channel, np.int16)),
        "security_id": pa.array(snapshots.security[chosen]),
        "symbol": named(rank, symbols),
        "sequence_version": pa.array(snapshots.version[chosen].astype(np.int32)),
        "sequence_number": pa.array(snapshots.number[chosen]),
        "rpt_seq": nulled(snapshots.count[chosen], snapshots.count[chosen] == 0),
        "loop_version": pa.array(loop.version[chosen].astype(np.int32)),
        "loop_number": pa.array(loop.number[chosen]),
        "sending_time_ns": pa.array(loop.sending[chosen]),
        "capture_time_ns": nulled(snapshots.capture[chosen]),
        "bids": pa.array(snapshots.bids[chosen]),
        "asks": pa.array(snapshots.asks[chosen]),
        "statistics": pa.array(snapshots.statistics[chosen]),
        "result": named(result, RESULTS),
        "differences": pa.array(np.array(audit.differences, np.int64)[chosen]),
        "detail": pa.array([audit.detail[at] for at in chosen.tolist()], pa.string()),
    }


def as_table(schema: Any, columns: dict[str, Any], rows: int) -> Any:
    """Return columns in the order of a schema, null where absent; texts stay dictionaries."""
    arrays = []
    fields = []
    for entry in schema:
        array = columns.get(entry.name)
        if array is None:
            array = pa.nulls(rows, entry.type)
        arrays.append(array)
        fields.append(pa.field(entry.name, array.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
