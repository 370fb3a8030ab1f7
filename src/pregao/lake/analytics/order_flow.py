"""The order flow of a day in a few numbers: how fast, how clustered, how short-lived orders are.

What is measured, on one channel while its instruments trade continuously (the longest such span):

- An *event* is what EndOfEvent ends; its time is when its first packet was sent.
- An order is *cancelled* if its deletion is in an event without trades; one that is replaced by
  another price is deleted too, and counts. Its lifetime goes from its entry to that deletion.
- An *amendment* is a change in place in an event without trades.
- A new order *improves* if its price is better than all that is known to rest on its side.
- *One lot* is the smallest lot of the instrument's definition.
- The *Fano factor* is the variance of the number of events in windows of 100 ms, by their mean;
  the *coefficient of variation* is that of the time from one event to the next.

Everything is computed over whole columns. Orders that rested before the capture began are not
known, which matters for the first moments only.
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
from pregao.lake.analytics.reading import dates_with_data
from pregao.lake.store import Lake

WINDOW_NS = 100 * MILLISECOND
CLOSE_NS = 200_000
LEAST_EVENTS = 500
LEAST_NEW_ORDERS = 100
LEAST_TRADES = 10
LEAST_SPAN_NS = 5 * SECOND
"""With less than this the numbers would say nothing."""


@dataclass(frozen=True, slots=True)
class OrderFlow:
    """The order flow of a channel on a day, while trading was continuous."""

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
    """Deletions in events without trades, replaced orders included."""
    replaced: int
    """Those of them whose event brings a new order of the same side."""
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
    """Share of the new orders that are of one lot."""
    interval_cv: float
    """Coefficient of variation of the time between events."""
    close: float
    """Share of events less than 200 µs behind the one before."""
    fano: float
    busiest: float
    """Share of the events that the busiest instrument has."""
    firmless: float
    """Share of the new orders without a firm."""
    resting: float
    """Orders on a side of an instrument at the end, in the mean."""
    security_types: tuple[str, ...]
    """The types of those instruments, the most frequent first."""
    lots: tuple[tuple[int, float], ...]
    """Sizes of new orders in lots and their shares, the most frequent first."""

    @property
    def events_per_second(self) -> float:
        """How many events a second has."""
        return self.events / self.seconds


def measure_flow(lake: Lake, day: date | None = None, channel: int | None = None) -> OrderFlow:
    """Measure a channel on a day: the last day, and its busiest channel, unless given."""
    lake.require()
    days = dates_with_data(lake)
    if not days:
        raise UsageError(f"{lake.location} has no captures yet: there is nothing to measure.")
    chosen = days[-1] if day is None else day
    if chosen not in days:
        known = ", ".join(str(each) for each in days[-5:])
        raise UsageError(f"{lake.location} has no day {chosen}; it has {known}.")
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


def _measure(tables: FlowTables, every: Columns, span: Span | None, channel: int) -> OrderFlow:
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
    ranked = np.argsort(-sizes[1], kind="stable")[:12]
    pairs = gone["event"] * 2 + gone["side"]
    replaced = np.isin(pairs[cancelled], new["event"] * 2 + new["side"])
    amended = int((~np.isin(changed["event"], trade_events)).sum())
    return OrderFlow(
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
        events < LEAST_EVENTS
        or new < LEAST_NEW_ORDERS
        or trades < LEAST_TRADES
        or seconds * SECOND < LEAST_SPAN_NS
        or not len(lifetimes)
    ):
        raise UsageError(
            f"channel {channel} has too little continuous trading to measure: {events:,} events, "
            f"{new:,} new orders, {trades:,} trades and {len(lifetimes):,} cancelled orders in "
            f"{seconds:.1f} s; at least {LEAST_EVENTS} events, {LEAST_NEW_ORDERS} new orders and "
            f"{LEAST_TRADES} trades in {LEAST_SPAN_NS // SECOND} s are needed."
        )


def _events(every: Columns) -> tuple[Any, Any, Any]:
    """The number, the time and the instrument of each event, in the order of time."""
    order = np.lexsort((every["sending_time_ns"], every["event"]))
    numbers, first = np.unique(every["event"][order], return_index=True)
    first = first[numbers >= 0]
    times = every["sending_time_ns"][order][first]
    ranked = np.argsort(times, kind="stable")
    securities = every["security_id"][order][first]
    return first[ranked], times[ranked], securities[ranked]
