"""Tables that an earlier version built with other columns: replaced, so that they are rebuilt."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable

from pregao.errors import UsageError
from pregao.lake.analytics.tables import AnalyticsTable
from pregao.lake.analytics.writing import UNBUILT, day_mark
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import arrow_schema, replace_columns, visible_files
from pregao.lake.storage.lake_store import LakeStore


def replace_outdated(
    lake: LakeStore, tables: Iterable[AnalyticsTable], days: Collection[datetime.date] | None
) -> None:
    """Remove the rows of tables with columns that no longer exist, and give them the current ones.

    ``days`` are the ones that will be built, None for all. A table that has rows of other days is
    an error: they would be lost.
    """
    outdated, there = [], set(lake.table_names())
    for table in tables:
        if table.name not in there:
            continue
        current = lake.delta(table.name)
        names = [field.name for field in arrow_schema(current)]
        old = [name for name in names if name not in table.spec.schema.names]
        if not old:
            continue
        built = set(visible_files(current)[f"partition.{DATE}"].to_pylist())
        if days is not None and not built <= set(days):
            columns = f"column{'s' if len(old) > 1 else ''} {', '.join(old)}"
            raise UsageError(
                f"{lake.location}: the table {table.name} was built by an earlier version of "
                f"Pregão (it has the {columns}); rebuild all its days first: pregao analytics "
                "without --date."
            )
        outdated.append((table.spec, {day_mark(day): UNBUILT for day in built}))
    for spec, marks in outdated:
        replace_columns(lake.table_location(spec.name), spec, marks)
