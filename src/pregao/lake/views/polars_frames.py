"""Tables and views of a lake as lazy frames of Polars, from the same definitions as in SQL."""

from __future__ import annotations

import os
from typing import Any

from pregao.extras import imported
from pregao.lake.store import Lake, Location, check_links, visible_files
from pregao.lake.views.definitions import (
    Column,
    Found,
    Lookup,
    Own,
    Text,
    Timestamp,
    Unit,
    define_view,
    key_columns,
    view_names,
)


def scan(lake: Lake | Location | str | os.PathLike[str], name: str) -> Any:
    """A table or view (``v_trades``) of a lake as a ``polars.LazyFrame``."""
    place = lake if isinstance(lake, Lake) else Lake(lake)
    place.require()
    place.roll_forward()
    if name not in view_names(place.table_names()):
        return _table(place, name)
    view = define_view(place, name)
    frame = _table(place, view.table)
    for number, lookup in enumerate(view.lookups):
        found = _grouped(place, lookup) if not lookup.order else None
        if found is not None:
            frame = frame.join(found, on=list(key_columns()), how="left", maintain_order="left")
        else:
            frame = _held(place, frame, lookup, number)
    return frame.select([_value(column) for column in view.columns])


def _polars() -> Any:
    with imported():
        import polars
    return polars


def _table(lake: Lake, name: str) -> Any:
    # Polars reads the log by itself; the errors of ours name missing tables and odd paths.
    paths = visible_files(lake.delta(name))["path"].to_pylist()
    place = lake.table_location(name)
    check_links(place, paths)
    return _polars().scan_delta(place.delta_uri, storage_options=place.storage_options or None)


def _value(column: Column) -> Any:
    pl = _polars()
    match column.value:
        case Own(name):
            value = pl.col(name)
        case Timestamp(of, Unit.NANOSECONDS):
            value = pl.col(of).cast(pl.Datetime("ns"))
        case Timestamp(of, Unit.SECONDS):
            value = (pl.col(of) * 1_000_000).cast(pl.Datetime("us"))
        case Text(sql):
            value = pl.sql_expr(sql)
        case Found(name, kind, there):
            kinds = {"STRING": pl.String, "BOOLEAN": pl.Boolean}
            value = pl.col(f"found_{name}") if there else pl.lit(None, dtype=kinds[kind])
    return value.alias(column.name)


def _grouped(lake: Lake, lookup: Lookup) -> Any:
    pl = _polars()
    takes = [pl.col(name).max().alias(f"found_{name}") for name in lookup.takes]
    return _table(lake, lookup.table).group_by(list(key_columns())).agg(takes)


def _held(lake: Lake, frame: Any, lookup: Lookup, number: int) -> Any:
    """The rows with what held at their place."""
    pl = _polars()
    key = list(key_columns())
    order = [pl.sql_expr(text).alias(f"order_{at}") for at, text in enumerate(lookup.order)]
    since = f"since_{number}"
    told = (
        _table(lake, lookup.table)
        .filter(pl.col("security_id").is_not_null())
        .with_columns(pl.sql_expr(lookup.theirs).alias(since), *order)
        .sort([since, *(f"order_{at}" for at in range(len(order)))])
        .select(*key, since, *[pl.col(name).alias(f"found_{name}") for name in lookup.takes])
        # Of those at one place the last holds, as where one ends before it begins.
        .unique([*key, since], keep="last", maintain_order=True)
    )
    place = f"place_{number}"
    return (
        frame.with_columns(pl.sql_expr(lookup.ours).alias(place))
        .sort(place)
        .join_asof(
            told,
            left_on=place,
            right_on=since,
            by=key,
            strategy="backward",
            check_sortedness=False,
        )
    )
