"""Order flow of a day in a few numbers: rates, clustering and lifetimes of orders.

Measures of one channel while its instruments trade continuously (the longest such span):

- An *event* is what EndOfEvent ends; its time is the sending time of its first packet.
- An order is *canceled* if its deletion is in an event without trades; one that is replaced by
  another price is deleted too, and counts. Its lifetime is from its entry to that deletion.
- An *amendment* is a change in place in an event without trades.
- A new order *improves* if its price is better than all known orders on its side.
- *One lot* is the minimum lot of the instrument's definition.
- The *Fano factor* is the variance of the number of events in windows of 100 ms, divided by their
  mean; the *coefficient of variation* is that of the time between events.

Everything is computed over complete columns. Orders that rested before the capture began are
unknown, which matters only for the first moments.

`answers` returns the EntryPoint reports about orders on the public feed, `aggressors` the requests
that traded. They have the numbers that the public feed shows (``secondaryOrderID``, ``tradeID``),
and the times of the PUMA model that it lacks: T1 the client sends, T2 the gateway receives, T4 the
matching engine receives, T6 the gateway answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.lake.analytics.flow_messages import (
    NAMED,
    Columns,
    FlowTables,
    Span,
    concat,
    flow_acts,
    open_span,
)
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import LakeDay, LakeFiles
from pregao.lake.storage.lake_store import LakeStore

WINDOW_NS = 100 * MILLISECOND
CLOSE_NS = 200_000
MIN_EVENTS = 500
MIN_NEW_ORDERS = 100
MIN_TRADES = 10
MIN_SPAN_NS = 5 * SECOND
"""Minimum events, orders, trades and span for meaningful measures."""

REQUESTS = (
    "ep_simple_new_order",
    "ep_new_order_single",
    "ep_simple_modify_order",
    "ep_order_cancel_replace_request",
    "ep_order_cancel_request",
)
"""Tables of the requests that cause public messages."""
ENTRIES = ("ep_execution_report_new", "ep_execution_report_modify")
"""Tables of the reports by which an order gets its public number."""
REPORTS = (*ENTRIES, "ep_execution_report_cancel")
"""Tables of the reports that answer a request."""
FILLS = "ep_execution_report_trade"
"""Table of the reports of trades."""
TIMES = ("t1_ns", "t2_ns", "t4_ns", "t6_ns")


# --- Measures ---


@dataclass(frozen=True, slots=True)
class OrderFlowStatistics:
    """Order flow of a channel on a day, during continuous trading."""

    date: date
    channel: int
    schema_version: int
    seconds: float
    instruments: int
    """Instruments with events in that time."""
    events: int
    messages: int
    new_orders: int
    cancels: int
    """Deletions in events without trades, including replaced orders."""
    replaced: int
    """Cancels whose event has a new order on the same side."""
    trades: int
    trade_events: int
    lifetime_median_ms: float
    lifetime_p10_ms: float
    amended: float
    """Amendments as a share of messages."""
    improving: float
    """Share of the new orders that improve the best price."""
    cancels_per_trade: float
    one_lot: float
    """Share of the new orders with a size of one lot."""
    interval_cv: float
    """Coefficient of variation of the time between events."""
    close: float
    """Share of events less than 200 µs after the previous one."""
    fano: float
    busiest: float
    """Share of the events of the busiest instrument."""
    firmless: float
    """Share of the new orders without a firm."""
    resting: float
    """Mean number of orders per instrument and side at the end."""
    security_types: tuple[str, ...]
    """Types of those instruments, the most frequent first."""
    lots: tuple[tuple[int, float], ...]
    """Sizes of new orders in lots and their shares, the most frequent first."""

    @property
    def events_per_second(self) -> float:
        """Number of events per second."""
        return self.events / self.seconds


def measure_flow(
    lake: LakeStore, day: date | None = None, channel: int | None = None
) -> OrderFlowStatistics:
    """Measure a channel on a day; by default the last day, and its busiest channel."""
    lake.require()
    days = LakeFiles(lake).days()
    if not days:
        raise UsageError(f"{lake.location} has no captures yet: ingest some first.")
    chosen = days[-1] if day is None else day
    if chosen not in days:
        available = ", ".join(str(each) for each in days[-5:])
        raise UsageError(f"{lake.location} has no data of {chosen}; it has {available}.")
    tables = FlowTables(lake, chosen)
    number = tables.busiest() if channel is None else channel
    tables.channel = number
    span = open_span(tables)
    every = concat([tables.read(template, NAMED) for template in tables.events()])
    if not len(every["event"]):
        raise UsageError(
            f"{lake.location} has no order books of channel {number} on {chosen}: give another "
            "--date or --channel."
        )
    return _measure(tables, every, span, number)


def _measure(
    tables: FlowTables, every: Columns, span: Span | None, channel: int
) -> OrderFlowStatistics:
    if span is not None:
        within = (every["sending_time_ns"] >= span[0]) & (every["sending_time_ns"] < span[1])
        every = {name: column[within] for name, column in every.items()}
    first, times, instruments = _events(every)
    new, gone, changed, trades = flow_acts(tables, span)
    trade_events = np.unique(trades["event"])
    cancelled = gone["known"] & ~np.isin(gone["event"], trade_events)
    lifetimes = gone["lifetime_ns"][cancelled & (gone["lifetime_ns"] >= 0)]
    seconds = (times[-1] - times[0]) / SECOND if len(times) else 0.0
    _require(len(first), len(new["event"]), len(trades["event"]), seconds, lifetimes, channel)
    gaps = np.diff(times)
    windows = np.bincount((times - times[0]) // WINDOW_NS)[: int(seconds * SECOND // WINDOW_NS)]
    shares = np.unique(instruments, return_counts=True)[1] / len(instruments)
    sizes = np.unique(new["lots"], return_counts=True)
    ranked = np.argsort(-sizes[1], kind="stable")[:20]
    pairs = gone["event"] * 2 + gone["side"]
    replaced = np.isin(pairs[cancelled], new["event"] * 2 + new["side"])
    amended = int((~np.isin(changed["event"], trade_events)).sum())
    return OrderFlowStatistics(
        date=tables.day,
        channel=channel,
        schema_version=int(every["schema_version"].max()),
        seconds=float(seconds),
        instruments=len(shares),
        events=len(first),
        messages=len(every["event"]),
        new_orders=len(new["event"]),
        cancels=int(cancelled.sum()),
        replaced=int(replaced.sum()),
        trades=len(trades["event"]),
        trade_events=len(trade_events),
        lifetime_median_ms=float(np.median(lifetimes)) / MILLISECOND,
        lifetime_p10_ms=float(np.quantile(lifetimes, 0.1)) / MILLISECOND,
        amended=amended / len(every["event"]),
        improving=float(new["improving"].mean()),
        cancels_per_trade=float(cancelled.sum()) / len(trades["event"]),
        one_lot=float((new["lots"] == 1).mean()),
        interval_cv=float(gaps.std() / gaps.mean()),
        close=float((gaps < CLOSE_NS).mean()),
        fano=float(windows.var() / windows.mean()),
        busiest=float(shares.max()),
        firmless=float((new["firm"] < 0).mean()),
        resting=float(new["left"]) / 2 / len(shares),
        security_types=tables.security_types(np.unique(instruments)),
        lots=tuple((int(sizes[0][row]), float(sizes[1][row]) / len(new["lots"])) for row in ranked),
    )


def _require(
    events: int, new: int, trades: int, seconds: float, lifetimes: Any, channel: int
) -> None:
    if (
        events < MIN_EVENTS
        or new < MIN_NEW_ORDERS
        or trades < MIN_TRADES
        or seconds * SECOND < MIN_SPAN_NS
        or not len(lifetimes)
    ):
        raise UsageError(
            f"channel {channel} has too little continuous trading to measure: {events:,} events, "
            f"{new:,} new orders, {trades:,} trades and {len(lifetimes):,} canceled orders in "
            f"{seconds:.1f} s; at least {MIN_EVENTS} events, {MIN_NEW_ORDERS} new orders and "
            f"{MIN_TRADES} trades in {MIN_SPAN_NS // SECOND} s are needed."
        )


def _events(every: Columns) -> tuple[Any, Any, Any]:
    """Return number, time and instrument of each event, in time order."""
    order = np.lexsort((every["sending_time_ns"], every["event"]))
    numbers, first = np.unique(every["event"][order], return_index=True)
    first = first[numbers >= 0]
    times = every["sending_time_ns"][order][first]
    ranked = np.argsort(times, kind="stable")
    securities = every["security_id"][order][first]
    return first[ranked], times[ranked], securities[ranked]


# --- EntryPoint reports ---


Times = tuple[int, int]
"""First and last T5 of the reports to read."""

_NOTHING_SENT = "SELECT NULL::BIGINT AS session_id, NULL::BIGINT AS cl_ord_id, 0 AS t1_ns"
_SENT = """
SELECT business_header.session_id AS session_id, cl_ord_id,
    business_header.sending_time_ns AS t1_ns
FROM ({rows})
"""
_REPORTED = """
SELECT business_header.session_id AS session_id, cl_ord_id, security_id, secondary_order_id,
    order_id, {received} AS t2_ns, {segment} AS t4_ns, transact_time_ns AS t5_ns,
    business_header.sending_time_ns AS reported_ns, {reason} IS NULL AS requested,
    ord_status IS DISTINCT FROM 'RESTATED' AND coalesce(t2_ns, t4_ns) IS NOT NULL AS answers
FROM ({rows}) WHERE transact_time_ns BETWEEN {first} AND {last}
"""
_ANSWERED = """
WITH reported AS MATERIALIZED ({reported}), sent AS (
    SELECT session_id, cl_ord_id, min(t1_ns) AS t1_ns FROM ({sent})
    SEMI JOIN reported USING (session_id, cl_ord_id) GROUP BY session_id, cl_ord_id
)
SELECT reported.* EXCLUDE (requested, answers),
    CASE WHEN answers AND requested THEN t1_ns END AS t1_ns,
    CASE WHEN answers THEN reported_ns END AS t6_ns
FROM reported LEFT JOIN sent USING (session_id, cl_ord_id)
"""
_AGGRESSORS = """
SELECT DISTINCT security_id, trade_id, transact_time_ns AS t5_ns,
    business_header.session_id AS session_id, cl_ord_id
FROM ({rows})
WHERE aggressor_indicator = 'TRUE_VALUE' AND transact_time_ns BETWEEN {first} AND {last}
"""
_AGGRESSOR = ("security_id", "trade_id", "t5_ns", "session_id", "cl_ord_id")
_ANSWER = (
    "session_id", "cl_ord_id", "security_id", "secondary_order_id", "order_id", "t2_ns", "t4_ns",
    "t5_ns", "reported_ns", "t1_ns", "t6_ns",
)  # fmt: skip
_ALWAYS = (-(1 << 63), (1 << 63) - 1)


def answers(
    day: LakeDay, tables: tuple[str, ...] = REPORTS, within: Times | None = None
) -> DataFrame | None:
    """Return the reports of some tables with the times of their requests; None without reports.

    ``reported_ns`` is the time of a report. It has T6 only if it answers a request: it states when
    one was received, and the order was not restated. It has T1 only if its order's owner requested
    it by the number in the report, and not in another way, such as a mass cancel.
    """
    reported = [_reported(day, name, within or _ALWAYS) for name in tables if day.has(name)]
    if not reported:
        return None
    sent = [_SENT.format(rows=day.table(name).sql()) for name in REQUESTS if day.has(name)]
    sql = _ANSWERED.format(
        reported=" UNION ALL ".join(reported), sent=" UNION ALL ".join(sent or [_NOTHING_SENT])
    )
    return DataFrame(day.session, sql, _ANSWER)


def aggressors(day: LakeDay, within: Times | None = None) -> DataFrame | None:
    """Return the number of the request whose order was the aggressor of each trade, if reported.

    ``t5_ns`` is that of the trade, which the answer to this request states too.
    """
    if not day.has(FILLS):
        return None
    first, last = within or _ALWAYS
    sql = _AGGRESSORS.format(rows=day.table(FILLS).sql(), first=first, last=last)
    return DataFrame(day.session, sql, _AGGRESSOR)


def _reported(day: LakeDay, name: str, within: Times) -> str:
    """Return the query of a table's reports; a lake of an earlier version lacks some columns."""
    rows = day.table(name)

    def own(column: str, kind: str) -> str:
        return column if column in rows.columns else f"CAST(NULL AS {kind})"

    return _REPORTED.format(
        rows=rows.sql(),
        received=own("received_time_ns", "BIGINT"),
        segment=own("market_segment_received_time_ns", "BIGINT"),
        reason=own("exec_restatement_reason", "VARCHAR"),
        first=within[0],
        last=within[1],
    )
