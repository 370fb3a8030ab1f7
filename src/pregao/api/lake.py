"""A lake for programs: its tables in the engine of choice, books at any moment, SQL, ingest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from pregao.api.ladders import Level, Order, ladder_text, levels, orders, price
from pregao.api.values import UTC, Path, Time, choice, day_from, listed, moment_ns, paths
from pregao.book.faults import State
from pregao.book.updates import Side
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake import store

if TYPE_CHECKING:
    from pregao.lake.books import AuditSummary, Moment
    from pregao.lake.ingest import Options

Engine = Literal["arrow", "polars", "duckdb", "spark", "pandas"]
BATCH_ROWS = 65_536
_ENGINES = ("arrow", "polars", "duckdb", "spark", "pandas")


@dataclass(frozen=True, slots=True)
class LakeBook:
    """The book of an instrument at a moment, as the lake's tables tell it."""

    symbol: str | None
    security_id: int
    channel: int
    date: date
    at_ns: int | None
    """What was asked for; None for the end of the day's data."""
    state: State
    bids: tuple[Level, ...]
    """Levels, best first."""
    asks: tuple[Level, ...]
    orders: tuple[Order, ...]
    """Every order in the order in which they would trade: bids, then asks."""
    last_price: Decimal | None
    trade_volume: int | None
    sequence_version: int | None
    """Of the last message that is in the book; None if there was none."""
    sequence_number: int | None
    sending_time_ns: int | None
    data_ends_ns: int | None
    """When the channel's last packet was sent, where that is before what was asked for."""
    current: bool
    """Were the books built after everything of the day was ingested?"""

    @property
    def trusted(self) -> bool:
        """Does it equal the exchange's own?"""
        return self.state in (State.VALID, State.EMPTY)

    def __str__(self) -> str:
        name = self.symbol or str(self.security_id)
        return f"{name} {self.date}: {self.state.name.lower()}\n{ladder_text(self.bids, self.asks)}"


class Lake:
    """The Delta tables of a lake: a folder, or a place such as ``s3://bucket/lake``."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._lake = store.Lake(location)

    def __repr__(self) -> str:
        return f"Lake({str(self._lake.location)!r})"

    @property
    def location(self) -> store.Location:
        """The place of the lake; its text is a path, or a URI such as ``s3://bucket/lake``."""
        return self._lake.location

    @property
    def tables(self) -> list[str]:
        """The names of the tables that there are."""
        self._lake.require()
        self._lake.roll_forward()
        return self._lake.table_names()

    def table(
        self,
        name: str,
        *,
        engine: Engine = "arrow",
        columns: Sequence[str] | None = None,
        where: str | None = None,
        raw: bool = False,
        spark: Any = None,
    ) -> Any:
        """A table with symbols, timestamps and names in place of codes.

        ``engine`` says what comes: an Arrow table ("arrow"), a lazy frame of Polars ("polars"), a
        relation of DuckDB ("duckdb"), a DataFrame of Spark ("spark", in the session ``spark`` if
        one is given) or of pandas ("pandas"). ``columns`` and ``where`` (a condition in SQL) are
        pushed down to the files. ``raw`` gives the columns as they are stored.
        """
        if engine not in _ENGINES:
            raise UsageError(f"There is no engine {engine!r}: there are {', '.join(_ENGINES)}.")
        own = self._name(name, raw)
        if engine == "polars":
            return self._polars(own, columns, where)
        if engine == "spark":
            from pregao.lake.spark import connect

            frame = connect(self._lake.location, spark).table(own)
            frame = frame if where is None else frame.where(where)
            return frame if columns is None else frame.select(*columns)
        names = "*" if columns is None else ", ".join(map(_quoted, columns))
        condition = "" if where is None else f" WHERE {where}"
        sql = f"SELECT {names} FROM {_quoted(own)}{condition}"  # noqa: S608 - it is a user's own
        if engine == "duckdb":
            return self._relation(sql)
        rows = self.sql(sql)
        if engine == "arrow":
            return rows
        require("pandas")
        return rows.to_pandas()

    def scan(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        raw: bool = False,
        rows: int = BATCH_ROWS,
    ) -> Iterator[Any]:
        """A table as Arrow record batches of so many rows at most, in bounded memory.

        ``columns`` and ``where`` (a condition in SQL) are pushed down: files, row groups and
        columns that cannot matter are not read. Rows of a file come in its order, files in any.
        """
        if rows < 1:
            raise UsageError(f"A batch has at least one row, not {rows}.")
        relation = self.table(name, engine="duckdb", columns=columns, where=where, raw=raw)
        yield from relation.to_arrow_reader(rows)

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] = (),
        *,
        engine: Literal["duckdb", "spark"] | None = None,
    ) -> Any:
        """The rows of a query on tables (``trades``) and views (``v_trades``), as an Arrow table.

        DuckDB answers in this process where it can read the lake, else Spark. The query is one
        SELECT (or WITH, FROM, VALUES, SHOW, DESCRIBE, EXPLAIN); a text that is anything else is
        refused before it runs, and none reads files but those of the lake's tables.

        Args:
            query: The query; a ``?`` stands for a value.
            parameters: The values, in their order: never write them into the query's text.
            engine: DuckDB or Spark, whose dialects differ.

        Returns:
            The rows as an Arrow table.

        Raises:
            UsageError: It is not one query, reaches beyond the lake, or fails.
        """
        from pregao.lake.sql import EngineName, choose_engine, open_engine

        named = None if engine is None else choice(EngineName, engine, "engine")
        chosen = choose_engine(self._lake, named, spark_wanted=False)
        return open_engine(self._lake, chosen).ask(query, parameters).rows()

    def book(
        self,
        instrument: str | int,
        at: Time | None = None,
        *,
        tz: str = UTC,
        day: date | str | None = None,
        channel: int | None = None,
    ) -> LakeBook:
        """The book of an instrument (symbol or number) after all packets sent up to a time.

        A time that names no zone is one of ``tz``. Without a time it is the end of the day, and
        without a day that of the last one.
        """
        from pregao.lake.books import book_at

        when = None if at is None else moment_ns(at, tz)
        wanted = None if day is None else day_from(day)
        return _lake_book(book_at(self._lake, str(instrument).upper(), when, wanted, channel))

    def ingest(
        self,
        captures: Path | Iterable[Path],
        *,
        options: Options | None = None,
        books: bool = True,
        analytics: bool = True,
        spark: Any = None,
    ) -> dict[str, Any]:
        """Take captures in (files, folders, patterns), exactly once; then make books and analytics.

        The work is done in this process, or with the session ``spark``. What is given back is what
        `pregao ingest --report` writes.
        """
        from pregao.lake.ingest import Merger, Runner, ingest, merge_here, run_here

        run: Runner = run_here
        merge: Merger = merge_here
        if spark is not None:
            from pregao.lake.spark import merge_on_spark, on_spark

            run, merge = on_spark(spark), merge_on_spark(spark)
        place = self._lake.location
        report = ingest(list(paths(captures)), place, options, run=run, merge=merge)
        told: dict[str, Any] = report.json()
        if books:
            told["books"] = self._build(spark)
        if analytics:
            from pregao.lake.analytics.analyse import analyse

            told["analytics"] = [
                {"date": one.date.isoformat(), "table": one.table, "rows": one.rows}
                for one in analyse(spark, self._lake)
            ]
        return told

    def audit(
        self, *, symbols: str | Iterable[str] | None = None, days: Iterable[date | str] = ()
    ) -> AuditSummary:
        """How the rebuilt books compare with every snapshot in the captures."""
        from pregao.lake.books import Selection, audit_summary

        selection = Selection(tuple(map(day_from, listed_days(days))), (), listed(symbols))
        return audit_summary(self._lake, selection)

    def _name(self, name: str, raw: bool) -> str:
        """The view of a table, unless its columns are wanted as they are stored."""
        from pregao.lake.views import view_names

        views = view_names(self.tables)
        if name in views:
            return views[name] if raw else name
        self._lake.delta(name)  # whose error names the tables that there are
        return name if raw else next(view for view, table in views.items() if table == name)

    def _polars(self, name: str, columns: Sequence[str] | None, where: str | None) -> Any:
        from pregao.lake.views import scan

        frame = scan(self._lake, name)
        if where is not None:
            import polars

            frame = frame.filter(polars.sql_expr(where))
        return frame if columns is None else frame.select(columns)

    def _relation(self, sql: str) -> Any:
        from pregao.lake.sql import EngineName, choose_engine
        from pregao.lake.sql.duckdb_engine import DuckdbEngine

        choose_engine(self._lake, EngineName.DUCKDB, spark_wanted=False)
        return DuckdbEngine(self._lake).ask(sql).relation

    def _build(self, spark: Any) -> list[dict[str, Any]]:
        from pregao.lake.books import Catalogue, books_on_spark, build_books, run_books_here

        if not Catalogue(self._lake).dates():
            return []  # neither orders nor snapshots are there
        run = run_books_here if spark is None else books_on_spark(spark)
        return [one.json() for one in build_books(self._lake.location, run=run)]


def listed_days(days: date | str | Iterable[date | str]) -> tuple[date | str, ...]:
    """One day or several, as a tuple."""
    return (days,) if isinstance(days, date | str) else tuple(days)


def _quoted(name: str) -> str:
    from pregao.lake.sql.duckdb_session import quoted_name

    return quoted_name(name)


def _lake_book(moment: Moment) -> LakeBook:
    of, book = moment.instrument, moment.book
    bids, asks = (book.levels(side) for side in Side)
    return LakeBook(
        of.symbol,
        of.security_id,
        of.channel,
        of.date,
        moment.at_ns,
        book.state,
        levels(bids),
        levels(asks),
        orders([order for side in Side for order in book.orders(side)]),
        price(moment.last_price),
        moment.trade_volume,
        moment.sequence_version,
        moment.sequence_number,
        moment.sending_time_ns,
        moment.data_ends_ns,
        moment.current,
    )
