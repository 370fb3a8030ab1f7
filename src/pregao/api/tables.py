"""Rows of one table of a lake, selected by instrument and time, in the engine of choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC as UTC_ZONE
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from pregao.api.arguments import UTC, Prices, Time, day_from, moment_ns, parameters
from pregao.clock import SECOND
from pregao.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from duckdb import DuckDBPyRelation
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession

    from pregao.lake.storage.lake_store import LakeStore

Engine = Literal["arrow", "polars", "duckdb", "spark", "pandas"]
Symbols = str | int | Iterable[str | int] | None
"""A symbol or security id, several, or None for all."""
_ONE_DAY = timedelta(days=1)


class TableReader:
    """Reads the rows of one table: ``lake.trades("PETR4", since, until)``.

    Args:
        store: Lake.
        table: Name of the table.
        times: Column of the rows' times; None for a table without.
        read: Reads the rows that meet a condition, `Lake.table`.
    """

    def __init__(
        self, store: LakeStore, table: str, times: str | None, read: Callable[..., Any]
    ) -> None:
        self._store = store
        self._table = table
        self._times = times
        self._read = read

    def __repr__(self) -> str:
        return f"<rows of {self._table}: call it with a symbol, since and until>"

    @overload
    def __call__(
        self, symbol: Symbols = None, since: Time | None = None, until: Time | None = None, *,
        day: date | str | None = None, interval: str | None = None,
        columns: Sequence[str] | None = None, where: str | None = None, ordered: bool = True,
        tz: str = UTC, prices: Prices = "decimal", engine: Literal["arrow"] = "arrow",
    ) -> pa.Table: ...  # fmt: skip
    @overload
    def __call__(
        self, symbol: Symbols = None, since: Time | None = None, until: Time | None = None, *,
        day: date | str | None = None, interval: str | None = None,
        columns: Sequence[str] | None = None, where: str | None = None, ordered: bool = True,
        tz: str = UTC, prices: Prices = "decimal", engine: Literal["pandas"],
    ) -> pd.DataFrame: ...  # fmt: skip
    @overload
    def __call__(
        self, symbol: Symbols = None, since: Time | None = None, until: Time | None = None, *,
        day: date | str | None = None, interval: str | None = None,
        columns: Sequence[str] | None = None, where: str | None = None, ordered: bool = True,
        tz: str = UTC, prices: Prices = "decimal", engine: Literal["polars"],
    ) -> pl.LazyFrame: ...  # fmt: skip
    @overload
    def __call__(
        self, symbol: Symbols = None, since: Time | None = None, until: Time | None = None, *,
        day: date | str | None = None, interval: str | None = None,
        columns: Sequence[str] | None = None, where: str | None = None, ordered: bool = True,
        tz: str = UTC, prices: Prices = "decimal", engine: Literal["duckdb"],
    ) -> DuckDBPyRelation: ...  # fmt: skip
    @overload
    def __call__(
        self, symbol: Symbols = None, since: Time | None = None, until: Time | None = None, *,
        day: date | str | None = None, interval: str | None = None,
        columns: Sequence[str] | None = None, where: str | None = None, ordered: bool = True,
        tz: str = UTC, prices: Prices = "decimal", engine: Literal["spark"],
        spark: SparkSession | None = None,
    ) -> SparkDataFrame: ...  # fmt: skip
    @parameters()
    def __call__(
        self,
        symbol: Symbols = None,
        since: Time | None = None,
        until: Time | None = None,
        *,
        day: date | str | None = None,
        interval: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        ordered: bool = True,
        tz: str = UTC,
        prices: Prices = "decimal",
        engine: Engine = "arrow",
        spark: SparkSession | None = None,
    ) -> pa.Table | pd.DataFrame | pl.LazyFrame | DuckDBPyRelation | SparkDataFrame:
        """Return the rows of instruments in a time range, in event order.

        Args:
            symbol: Symbol or security id, or several; None for all instruments.
            since: Start of the time range; None for the beginning.
            until: End of the time range (exclusive); None for the end.
            day: Trading day; None for all days of the lake.
            interval: Length of the bars, such as ``1m``; only for bars.
            columns: Columns to read, by default all.
            where: Further condition in SQL.
            ordered: Sort the rows; without it they come in any order, sooner.
            tz: Time zone of the timestamps, and of times without an offset.
            prices: ``decimal`` for exact prices, ``float`` for calculations and charts.
            engine: Type of the result, as in `Lake.table`.
            spark: Spark session for the engine "spark"; by default a new one.

        Returns:
            The rows: an Arrow table, or what the engine returns.

        Raises:
            UsageError: The lake has no such instrument, table, column or interval, or an argument
                is invalid.

        Example:
            >>> rows = lake.trades("PETR4", "2026-05-21 12:00", "2026-05-21 12:01")
            >>> set(rows["symbol"].to_pylist())
            {'PETR4'}
        """
        conditions = [
            *self._symbols(symbol, None if day is None else day_from(day)),
            *self._span(since, until, tz),
            *self._intervals(interval, "`" if engine == "spark" else '"'),
        ]
        if day is not None:
            conditions.append(f"date = DATE '{day_from(day)}'")
        if where is not None:
            conditions.append(f"({where})")
        return self._read(
            self._table, engine=engine, columns=columns, where=" AND ".join(conditions) or None,
            ordered=ordered, tz=tz if engine not in ("duckdb", "spark") else UTC, prices=prices,
            spark=spark,
        )  # fmt: skip

    def _symbols(self, symbol: Symbols, day: date | None) -> list[str]:
        """Return the condition on the instruments, which the lake must have."""
        from pregao.lake.views.symbols import find_symbol

        if symbol is None:
            return []
        named = [symbol] if isinstance(symbol, str | int) else []
        named = list(symbol) if isinstance(symbol, Iterable) and not named else named
        if not named or not all(isinstance(one, str | int) and str(one).strip() for one in named):
            raise UsageError(
                f"symbol must be a symbol such as 'PETR4', a security id, or several, was "
                f"{symbol!r}. Omit it for all."
            )
        conditions = []
        for one in named:
            found = find_symbol(self._store, str(one), day)
            ids = _listed({listing.security_id for listing in found})
            channels = _listed({listing.channel for listing in found})
            own = f"security_id IN ({ids}) AND channel IN ({channels})"
            if not str(one).strip().isdigit():  # the id may be another symbol's on other days
                names = {listing.symbol for listing in found if listing.symbol is not None}
                own += f" AND symbol IN ({_listed(map(_text, names))})"
            conditions.append(f"({own})")
        return [f"({' OR '.join(conditions)})"]

    def _span(self, since: Time | None, until: Time | None, tz: str) -> list[str]:
        """Return the conditions on the times; those on days skip whole files."""
        if since is None and until is None:
            return []
        if self._times is None:
            raise UsageError(
                f"{self._table} have no times: select a day with day= instead of since and until."
            )
        found = []
        for moment, sign, slack in ((since, ">=", -_ONE_DAY), (until, "<", _ONE_DAY)):
            if moment is not None:
                time_ns = moment_ns(moment, tz)
                # A trading day may begin on the evening before, or end after midnight.
                nearby = datetime.fromtimestamp(time_ns // SECOND, UTC_ZONE).date() + slack
                own_sign = ">=" if sign == ">=" else "<="
                found += [f"{self._times} {sign} {time_ns}", f"date {own_sign} DATE '{nearby}'"]
        return found

    def _intervals(self, interval: str | None, quote: str) -> list[str]:
        if interval is None:
            return []
        if self._table != "bars":
            raise UsageError(f"interval is for bars; {self._table} have none.")
        from pregao.lake.analytics.bars import known_intervals

        (known,) = known_intervals([interval])
        return [f"{quote}interval{quote} = '{known}'"]


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, values)))


def _text(value: str) -> str:
    """Return a text as an SQL literal; Spark reads a backslash as an escape."""
    if "\\" in value:
        raise UsageError(f"symbol must have no backslash, was {value!r}: name its security id.")
    return "'" + value.replace("'", "''") + "'"
