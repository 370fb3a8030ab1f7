"""Analytics of a lake: its tables made or brought up to date, day by day."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pregao._version import __version__
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.analytics.auctions import AUCTIONS
from pregao.lake.analytics.bars import BARS, kept_intervals
from pregao.lake.analytics.clock_offsets import CLOCK_OFFSETS
from pregao.lake.analytics.engine import in_process
from pregao.lake.analytics.here import HereSession
from pregao.lake.analytics.intervals import known_intervals
from pregao.lake.analytics.latency import LATENCY
from pregao.lake.analytics.latency_minutes import LATENCY_MINUTES
from pregao.lake.analytics.legacy import LEGACY_SOURCES, LEGACY_TABLES
from pregao.lake.analytics.orders import ORDERS
from pregao.lake.analytics.reading import Day, Tables, dates_with_data, message_table
from pregao.lake.analytics.session_stats import SESSION_STATS
from pregao.lake.analytics.status import STATUS
from pregao.lake.analytics.tables import AnalyticsTable, Wanted
from pregao.lake.analytics.trades import TRADES
from pregao.lake.analytics.writing import is_made_of, replace_day, told_what_failed
from pregao.lake.store import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANALYTICS = {
    table.name: table
    for table in (
        TRADES,
        BARS,
        SESSION_STATS,
        STATUS,
        AUCTIONS,
        CLOCK_OFFSETS,
        LATENCY,
        LATENCY_MINUTES,
        ORDERS,
    )
}
"""The tables by name; each stands behind those that it is made of."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a day of a table."""

    table: str
    date: datetime.date
    rows: int | None
    """How many rows were written; None if the day was up to date."""


Progress = Callable[[str, datetime.date], None]
"""Is told what is about to be made."""


def analyse(
    spark: SparkSession | None,
    lake: Lake,
    *,
    dates: Iterable[datetime.date] | None = None,
    tables: Iterable[str] | None = None,
    wanted: Wanted | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> list[Made]:
    """Make the analytics tables of a lake for some days, or for all that have data.

    With a Spark session they are made there, with None in this process; the rows are the same.
    Tables that the named ones are made of are brought up to date first. A day whose data has not
    changed since it was made is left alone, unless it is to be made ``again``; otherwise its rows
    are replaced as a whole.
    """
    require("numba")
    chosen = in_order(ANALYTICS if tables is None else tables)
    wanted = wanted or Wanted()
    wanted = replace(wanted, intervals=known_intervals(wanted.intervals))
    lake.require()
    lake.roll_forward()
    days = _days(lake, dates)
    lake.ensure_tables([table.spec for table in chosen])
    if spark is not None:
        return _make_all(Tables(spark, lake), days, chosen, wanted, again, progress)
    with in_process(), HereSession(lake) as here:
        return _make_all(Tables(here, lake), days, chosen, wanted, again, progress)


def _days(lake: Lake, asked: Iterable[datetime.date] | None) -> list[datetime.date]:
    """The days that are to be made; before anything is, those without data are refused."""
    there = dates_with_data(lake)
    if asked is None:
        return there
    days = sorted(set(asked))
    for day in days:
        if day not in there:
            span = f"it has {there[0]} to {there[-1]}" if there else "it has no data at all"
            raise UsageError(f"{lake.location} has nothing of {day}; {span}.")
    return days


def _make_all(
    opened: Tables,
    dates: Iterable[datetime.date],
    chosen: Iterable[AnalyticsTable],
    wanted: Wanted,
    again: bool,
    progress: Progress | None,
) -> list[Made]:
    """Make these tables of each day."""
    result = []
    for date in dates:
        day = opened.day(date)
        for table in chosen:
            result.append(_make(day, table, wanted, again, progress))
    return result


def in_order(names: Iterable[str]) -> list[AnalyticsTable]:
    """These tables and all that they are made of, each behind what it is made of."""
    needed: set[str] = set()
    due = list(names)
    while due:
        name = due.pop()
        if name not in ANALYTICS:
            raise UsageError(
                f"There is no analytics table {name!r}; there are {', '.join(ANALYTICS)}."
            )
        needed.add(name)
        due += ANALYTICS[name].needs
    return [table for table in ANALYTICS.values() if table.name in needed]


def _make(
    day: Day, table: AnalyticsTable, wanted: Wanted, again: bool, progress: Progress | None
) -> Made:
    if table is BARS:
        intervals = known_intervals([*wanted.intervals, *kept_intervals(day)])
        wanted = replace(wanted, intervals=intervals)
    columns = [field.name for field in table.columns]
    chosen = wanted if table is BARS else None
    made_of = day.fingerprint(_inputs(table), __version__, columns, chosen)
    lake = day.tables.lake
    if not again and is_made_of(lake, table, day.date, made_of):
        return Made(table.name, day.date, None)
    if progress is not None:
        progress(table.name, day.date)
    try:
        with told_what_failed(table, day.date):
            frame = table.build(day, wanted)
        rows = replace_day(lake, table, frame, day.date, made_of)
    finally:
        day.tables.release()
    day.tables.forget(table.name)
    return Made(table.name, day.date, rows)


def _inputs(table: AnalyticsTable) -> Sequence[str]:
    """The tables on whose files a table depends."""
    older = LEGACY_TABLES if LEGACY_SOURCES.keys() & set(table.templates) else ()
    return [*map(message_table, table.templates), *older, *table.others, *table.needs]
