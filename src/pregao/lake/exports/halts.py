"""Halts and resumptions of an instrument's trading, in LOBSTER's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pregao.lake.analytics.analyse import analyse
from pregao.lake.books.span import BookInstrument
from pregao.lake.store.lake import LakeStore
from pregao.umdf.events import event_number

HALTED, QUOTING, TRADING = -1, 0, 1
"""LOBSTER's values in the price column: halt, orders accepted again, trading resumes."""
_CALL = "RESERVED"
"""Orders are accepted, and trade at the end of the auction."""
_ENDS = frozenset({"CLOSE", "FINAL_CLOSING_CALL"})


class Halt(NamedTuple):
    """Change of the trading state."""

    event_key: int
    """Event key of its message."""
    time_ns: int
    value: int


def halts_of(lake: LakeStore, instrument: BookInstrument) -> list[Halt]:
    """Return the halts of an instrument's day. Updates the table ``status`` first."""
    analyse(None, lake, dates=[instrument.date], tables=["status"])
    names = ["channel", "security_id", "status", "trades_continuously", "from_ns",
             "sequence_version", "sequence_number", "index_in_packet"]  # fmt: skip
    table = lake.delta("status").to_pyarrow_table(
        filters=[("date", "=", instrument.date), ("security_id", "=", instrument.security_id)],
        columns=names,
    )
    rows = [row for row in table.to_pylist() if row["channel"] == instrument.channel]
    return halts(sorted(rows, key=lambda row: (_event_key(row), row["from_ns"])))


def halts(rows: Iterable[Mapping[str, Any]]) -> list[Halt]:
    """Return the halts in ordered rows of the table: after the first trading, without the close.

    An auction called during the session halts trading and accepts orders at the same time.
    """
    found: list[Halt] = []
    trading, halted = False, False

    def tell(row: Mapping[str, Any], value: int) -> None:
        found.append(Halt(_event_key(row), row["from_ns"], value))

    for row in rows:
        if row["trades_continuously"]:
            if halted:
                tell(row, TRADING)
            trading, halted = True, False
        elif row["status"] in _ENDS:
            trading, halted = False, False
        elif trading or halted:
            if trading:
                tell(row, HALTED)
            if row["status"] == _CALL:
                tell(row, QUOTING)
            trading, halted = False, True
    return found


def _event_key(row: Mapping[str, Any]) -> int:
    key = (row[name] or 0 for name in ("sequence_version", "sequence_number", "index_in_packet"))
    return event_number(*key)
