"""Legacy phases and states as rows of the binary feed's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pregao.book.update_rows import NULL
from pregao.feed.legacy.book_updates import number_of
from pregao.lake.books.columns import nulled, take
from pregao.lake.books.legacy_entries import EntryColumns, or_null
from pregao.lake.books.legacy_messages import key_columns, named, names_of
from pregao.lake.books.slots import TimeSlots
from pregao.legacy.bulk import times_of
from pregao.umdf.templates import SECURITY_STATUS

STATUS_COLUMNS: Final = (
    "channel", "stream", "sequence_version", "index_in_packet", "sending_time_ns",
    "capture_time_ns", "feed", "feed_difference_ns", "capture_id", "msg_seq_num", "security_id",
    "security_group", "security_exchange", "trading_session_id", "trading_session_sub_id",
    "security_trading_status", "security_trading_event", "transact_time", "trad_ses_open_time",
)  # fmt: skip
"""Columns read of ``legacy_security_status``."""
HOME: Final = "BVMF"
"""Exchange whose groups are named by code alone: codes repeat between exchanges."""


def group_text(rows: Any) -> Any:
    """Return the groups of rows: their codes, with the exchange if it is not `HOME`."""
    codes = rows.column("security_group").cast(pa.string()).to_pylist()
    exchanges = [None] * len(codes)
    if "security_exchange" in rows.column_names:
        exchanges = rows.column("security_exchange").cast(pa.string()).to_pylist()
    return pa.array(
        [
            code if code is None or exchange in (None, HOME) else f"{code} {exchange}"
            for code, exchange in zip(codes, exchanges, strict=True)
        ],
        pa.string(),
    )


def statuses_of(rows: Any, template: int, slots: Mapping[int, TimeSlots] | None = None) -> Any:
    """Return the states of instruments, or the phases of groups."""
    entries = EntryColumns(rows, slots)
    group = group_text(entries.rows)
    of_group = np.array([bool(each) for each in group.to_pylist()], np.bool_)
    kept = np.flatnonzero(~of_group if template == SECURITY_STATUS else of_group)
    phases = entries.value(
        "trading_session_sub_id", lambda text: or_null(number_of(text)), np.int64
    )
    states = entries.numbers("security_trading_status")
    columns = {
        "match_event_indicator": pa.array(np.zeros(len(kept), np.int64)),
        "trading_session_id": named(
            entries.numbers("trading_session_id"), names_of("TradingSessionID"), kept
        ),
        "security_trading_event": named(
            entries.numbers("security_trading_event"), names_of("SecurityTradingEvent"), kept
        ),
        "transact_time_ns": _times(entries, "transact_time", kept),
        "trad_ses_open_time_ns": _times(entries, "trad_ses_open_time", kept),
    }
    keys = key_columns(entries, kept)
    if template == SECURITY_STATUS:
        columns["security_trading_status"] = named(states, names_of("SecurityTradingStatus"), kept)
        return pa.table({**keys, **columns})
    codes = np.where(phases == NULL, states, phases)
    columns["trading_session_sub_id"] = named(codes, names_of("TradingSessionSubID"), kept)
    columns["security_group"] = take(group, kept)
    without = {name: own for name, own in keys.items() if name not in ("security_id", "rpt_seq")}
    return pa.table({**without, **columns})


def _times(entries: EntryColumns, name: str, kept: np.ndarray[Any, Any]) -> Any:
    found = times_of(entries.numbers(name, 0)[kept])
    return nulled(np.where(found > 0, found, NULL))
