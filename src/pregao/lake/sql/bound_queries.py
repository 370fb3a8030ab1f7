"""Pregão's own queries on a lake's tables: constant SQL with bound values.

A lake may come from an untrusted source: its strings are bound as values and never become part of
the SQL. The tables are Arrow datasets, whose files Arrow reads, so the DuckDB session is locked,
with no file access, before it gets a query. Conditions on bound values still skip files and columns
that are not needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from pregao.errors import PregaoError
from pregao.lake.sql.duckdb_engine import is_interrupt
from pregao.lake.sql.duckdb_session import open_session
from pregao.lake.sql.engines import renamed_hint
from pregao.lake.storage.delta import arrow_schema, dataset, visible_files
from pregao.lake.storage.lake_store import LakeStore

LEVELS_OF_TICKS = """
SELECT sending_time_ns, state,
  bid_price_1, bid_price_2, bid_price_3, bid_price_4, bid_price_5,
  bid_price_6, bid_price_7, bid_price_8, bid_price_9, bid_price_10,
  bid_size_1, bid_size_2, bid_size_3, bid_size_4, bid_size_5,
  bid_size_6, bid_size_7, bid_size_8, bid_size_9, bid_size_10,
  ask_price_1, ask_price_2, ask_price_3, ask_price_4, ask_price_5,
  ask_price_6, ask_price_7, ask_price_8, ask_price_9, ask_price_10,
  ask_size_1, ask_size_2, ask_size_3, ask_size_4, ask_size_5,
  ask_size_6, ask_size_7, ask_size_8, ask_size_9, ask_size_10
FROM ticks
"""
"""SELECT and FROM of a query for the states and the best ten levels of ticks."""
_NAMED = re.compile(r"\$([a-z_]+)")


def bound_rows(
    lake: LakeStore, tables: Sequence[str], sql: str, values: Mapping[str, Any] | None = None
) -> Any:
    """Return the rows of a query as an Arrow table.

    Args:
        lake: Lake that has the tables.
        tables: Names of the tables that the query reads.
        sql: Constant SQL text, with ``$name`` for each bound value.
        values: Values by name; names that do not occur in ``sql`` are ignored.
    """
    lake.require()
    lake.roll_forward()
    wanted = set(_NAMED.findall(sql))
    bound = {name: value for name, value in (values or {}).items() if name in wanted}
    with _errors(lake, tables), open_session() as session:
        for name in tables:
            table = lake.delta(name)
            files = dataset(lake.table_location(name), arrow_schema(table), visible_files(table))
            session.register(name, files)
        return session.sql(sql, params=bound).to_arrow_table()


@contextmanager
def _errors(lake: LakeStore, tables: Sequence[str]) -> Iterator[None]:
    """Turn errors of DuckDB and Arrow into a `PregaoError` of one line."""
    try:
        yield
    except PregaoError:
        raise
    except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        first = " ".join(str(error).split())[:300]
        hint = renamed_hint(first, lake)
        raise PregaoError(
            f"The lake's {', '.join(tables)} cannot be read: {first}{hint}"
        ) from error
