"""Tables and views of a lake as Polars lazy frames, from the same definitions as the SQL."""

from __future__ import annotations

import os
from typing import Any

from pregao.extras import imported
from pregao.lake.storage.delta import visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_files import check_links
from pregao.lake.views.definitions import (
    Lookup,
    LookupColumn,
    OwnColumn,
    SqlExpression,
    TimestampColumn,
    TimeUnit,
    ViewColumn,
    define_view,
    key_columns,
    view_names,
)


def scan(lake: LakeStore | Location | str | os.PathLike[str], name: str) -> Any:
    """Return a table or view (``v_trades``) of a lake as a ``polars.LazyFrame``."""
    store = lake if isinstance(lake, LakeStore) else LakeStore(lake)
    store.require()
    store.roll_forward()
    if name not in view_names(store.table_names()):
        return _table(store, name)
    view = define_view(store, name)
    frame = _table(store, view.table)
    for number, lookup in enumerate(view.lookups):
        found = _grouped(store, lookup) if not lookup.order else None
        if found is not None:
            frame = frame.join(found, on=list(key_columns()), how="left", maintain_order="left")
        else:
            frame = _held(store, frame, lookup, number)
    return frame.select([_value(column) for column in view.columns])


def _polars() -> Any:
    with imported():
        import polars
    return polars


def _table(lake: LakeStore, name: str) -> Any:
    # Polars reads the log again; reading it here first gives clear errors for missing tables and
    # unsafe paths.
    paths = visible_files(lake.delta(name))["path"].to_pylist()
    location = lake.table_location(name)
    check_links(location, paths)
    return _polars().scan_delta(
        location.delta_uri, storage_options=location.storage_options or None
    )


def _value(column: ViewColumn) -> Any:
    pl = _polars()
    match column.value:
        case OwnColumn(name):
            value = pl.col(name)
        case TimestampColumn(of, TimeUnit.NANOSECONDS, sql):
            value = (pl.sql_expr(sql) if sql else pl.col(of)).cast(pl.Datetime("ns"))
        case TimestampColumn(of, TimeUnit.SECONDS):
            value = (pl.col(of) * 1_000_000).cast(pl.Datetime("us"))
        case SqlExpression(sql):
            value = pl.sql_expr(sql)
        case LookupColumn(name, kind, there):
            kinds = {"STRING": pl.String, "BOOLEAN": pl.Boolean}
            value = pl.col(f"found_{name}") if there else pl.lit(None, dtype=kinds[kind])
    return value.alias(column.name)


def _grouped(lake: LakeStore, lookup: Lookup) -> Any:
    pl = _polars()
    takes = [pl.col(name).max().alias(f"found_{name}") for name in lookup.takes]
    return _table(lake, lookup.table).group_by(list(key_columns())).agg(takes)


def _held(lake: LakeStore, frame: Any, lookup: Lookup, number: int) -> Any:
    """Join each row with the last row of the lookup at or before its event key."""
    pl = _polars()
    key = list(key_columns())
    order = [pl.sql_expr(text).alias(f"order_{at}") for at, text in enumerate(lookup.order)]
    since = f"since_{number}"
    states = (
        _table(lake, lookup.table)
        .filter(pl.col("security_id").is_not_null())
        .with_columns(pl.sql_expr(lookup.theirs).alias(since), *order)
        .sort([since, *(f"order_{at}" for at in range(len(order)))])
        .select(*key, since, *[pl.col(name).alias(f"found_{name}") for name in lookup.takes])
        # Of several with one event key the last is in effect; the others end where they begin.
        .unique([*key, since], keep="last", maintain_order=True)
    )
    event_key = f"place_{number}"
    return (
        frame.with_columns(pl.sql_expr(lookup.ours).alias(event_key))
        .sort(event_key)
        .join_asof(
            states,
            left_on=event_key,
            right_on=since,
            by=key,
            strategy="backward",
            check_sortedness=False,
        )
    )
