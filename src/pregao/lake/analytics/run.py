"""Analytics of a lake: builds or updates its tables, day by day."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pregao._version import __version__
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.analytics.auctions import AUCTIONS
from pregao.lake.analytics.bars import BARS, kept_intervals, known_intervals
from pregao.lake.analytics.clock_offsets import CLOCK_OFFSETS
from pregao.lake.analytics.engine import local_engine
from pregao.lake.analytics.latency import LATENCY, LATENCY_MINUTES
from pregao.lake.analytics.legacy import LEGACY_SOURCES, LEGACY_TABLES
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.orders import ORDERS
from pregao.lake.analytics.reading import LakeDay, LakeTables, dates_with_data, message_table
from pregao.lake.analytics.session_stats import SESSION_STATS
from pregao.lake.analytics.status import STATUS
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable
from pregao.lake.analytics.trades import TRADES, VENUE_TRADES
from pregao.lake.analytics.writing import (
    describe_failure,
    is_built_from,
    replace_day,
    replace_outdated,
)
from pregao.lake.books.legacy_messages import LEGACY_RULES
from pregao.lake.storage.lake_store import LakeStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANALYTICS = {
    table.name: table
    for table in (
        TRADES,
        VENUE_TRADES,
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
"""Tables by name; each is listed after its inputs."""


@dataclass(frozen=True, slots=True)
class TableBuild:
    """Result of building one day of a table."""

    table: str
    date: datetime.date
    rows: int | None
    """Number of rows written; None if the day was up to date."""


OnTable = Callable[[str, datetime.date], None]
"""Called with table and date before each build."""


def analyse(
    spark: SparkSession | None,
    lake: LakeStore,
    *,
    dates: Iterable[datetime.date] | None = None,
    tables: Iterable[str] | None = None,
    wanted: AnalyticsOptions | None = None,
    force: bool = False,
    progress: OnTable | None = None,
) -> list[TableBuild]:
    """Build the analytics tables of a lake for some days, or for all that have data.

    With a Spark session they are built there, with None in this process; the rows are equal. Tables
    that the named ones depend on are updated first. A day whose data has not changed since its last
    build is skipped, unless ``force`` is set; otherwise all its rows are replaced. Tables that an
    earlier version built with other columns are rebuilt as a whole.
    """
    require("numba")
    chosen = in_order(ANALYTICS if tables is None else tables)
    wanted = wanted or AnalyticsOptions()
    wanted = replace(wanted, intervals=known_intervals(wanted.intervals))
    lake.require()
    lake.roll_forward()
    days = _days(lake, dates)
    replace_outdated(lake, chosen, None if dates is None else days)
    lake.ensure_tables([table.spec for table in chosen])
    if spark is not None:
        return _make_all(LakeTables(spark, lake), days, chosen, wanted, force, progress)
    with local_engine(), LocalSession(lake) as session:
        return _make_all(LakeTables(session, lake), days, chosen, wanted, force, progress)


def _days(lake: LakeStore, requested: Iterable[datetime.date] | None) -> list[datetime.date]:
    """Return the days to build; raise `UsageError` for those without data, before any build."""
    available = dates_with_data(lake)
    if requested is None:
        return available
    days = sorted(set(requested))
    for day in days:
        if day not in available:
            span = f"it has {available[0]} to {available[-1]}" if available else "it has no data"
            raise UsageError(f"{lake.location} has no data of {day}; {span}.")
    return days


def _make_all(
    opened: LakeTables,
    dates: Iterable[datetime.date],
    chosen: Iterable[AnalyticsTable],
    wanted: AnalyticsOptions,
    force: bool,
    progress: OnTable | None,
) -> list[TableBuild]:
    """Build these tables for each day."""
    result = []
    for date in dates:
        day = opened.day(date)
        for table in chosen:
            result.append(_make(day, table, wanted, force, progress))
    return result


def in_order(names: Iterable[str]) -> list[AnalyticsTable]:
    """Return these tables and all that they depend on, each after its inputs."""
    needed: set[str] = set()
    due = list(names)
    while due:
        name = due.pop()
        if name not in ANALYTICS:
            raise UsageError(
                f"There is no analytics table {name!r}; choose from {', '.join(ANALYTICS)}."
            )
        needed.add(name)
        due += ANALYTICS[name].needs
    return [table for table in ANALYTICS.values() if table.name in needed]


def _make(
    day: LakeDay,
    table: AnalyticsTable,
    wanted: AnalyticsOptions,
    force: bool,
    progress: OnTable | None,
) -> TableBuild:
    if table is BARS:
        intervals = known_intervals([*wanted.intervals, *kept_intervals(day)])
        wanted = replace(wanted, intervals=intervals)
    columns = [field.name for field in table.columns]
    bar_settings = wanted if table is BARS else None
    rules = (LEGACY_RULES,) if any(day.has(name) for name in _legacy_inputs(table)) else ()
    inputs = day.fingerprint(_inputs(table), __version__, columns, bar_settings, *rules)
    lake = day.tables.lake
    if not force and is_built_from(lake, table, day.date, inputs):
        return TableBuild(table.name, day.date, None)
    if progress is not None:
        progress(table.name, day.date)
    try:
        with describe_failure(table, day.date):
            frame = table.build(day, wanted)
        rows = replace_day(lake, table, frame, day.date, inputs)
    finally:
        day.tables.release()
    day.tables.forget(table.name)
    return TableBuild(table.name, day.date, rows)


def _inputs(table: AnalyticsTable) -> Sequence[str]:
    """Return the tables whose files a table depends on."""
    templates = map(message_table, table.templates)
    return [*templates, *_legacy_inputs(table), *table.others, *table.needs]


def _legacy_inputs(table: AnalyticsTable) -> Sequence[str]:
    """Return the tables of the legacy feed that a table depends on."""
    return LEGACY_TABLES if LEGACY_SOURCES.keys() & set(table.templates) else ()
