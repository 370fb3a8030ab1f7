"""The lake API: tables in the engine of choice, books at any time, SQL, ingest."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from pregao.api.arguments import (
    PRICES,
    UTC,
    Path,
    Prices,
    Time,
    choice,
    day_from,
    listed,
    moment_ns,
    pandas_frame,
    parameters,
    paths,
    polars_typed,
    timestamps_in,
)
from pregao.api.tables import Engine, Symbols, TableReader
from pregao.book.levels import Level, Order, ladder_text, levels, orders
from pregao.book.state import State
from pregao.clock import format_ns
from pregao.errors import UsageError
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.notebook import Report, book_text, ladder_html
from pregao.units import Side, parse_zone, price_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from duckdb import DuckDBPyRelation
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession

    from pregao.lake.books.replay_span import HistoricalBook
    from pregao.lake.books.selection import AuditSummary
    from pregao.lake.execution.runner import Runner
    from pregao.lake.ingest.options import IngestOptions

ExportName = Literal[
    "ticks", "book", "mbo", "mbp-10", "lobster", "hftbacktest", "hftbacktest-l2", "nautilus"
]
BATCH_ROWS = 65_536
_ENGINES = ("arrow", "polars", "duckdb", "spark", "pandas")


@dataclass(frozen=True, slots=True)
class LakeBook:
    """The book of an instrument at a time, from the lake's tables."""

    symbol: str | None
    security_id: int
    channel: int
    date: date
    at_ns: int | None
    """The requested time; None for the end of the day's data."""
    state: State
    bids: tuple[Level, ...]
    """Bid levels, best first."""
    asks: tuple[Level, ...]
    orders: tuple[Order, ...]
    """All orders in priority order: bids, then asks."""
    last_price: Decimal | None
    trade_volume: int | None
    sequence_version: int | None
    """Sequence version of the last message in the book; None if there was none."""
    sequence_number: int | None
    sending_time_ns: int | None
    data_ends_ns: int | None
    """Sending time of the channel's last packet, if that is before the requested time."""
    current: bool
    """Whether the books were built after everything of the day was ingested."""
    reason: str | None = None
    """The missing packets, and when they were sent, of an unconfirmed book; None otherwise."""

    @property
    def trusted(self) -> bool:
        """Whether it equals the exchange's own book."""
        return self.state in (State.VALID, State.EMPTY)

    @property
    def _title(self) -> str:
        name = self.symbol or str(self.security_id)
        when = str(self.date) if self.at_ns is None else format_ns(self.at_ns)
        return f"{name} {when}: {self.state.name.lower()}"

    def __str__(self) -> str:
        return f"{self._title}\n{ladder_text(self.bids, self.asks)}"

    def __repr__(self) -> str:
        return book_text(self._title, self.bids, self.asks)

    def _repr_html_(self) -> str:
        return ladder_html(self._title, self.bids, self.asks)


class Lake:
    """The Delta tables of a lake.

    Args:
        location: A folder, or a URI such as ``s3://bucket/lake``.

    Example:
        >>> lake = pregao.Lake("lake")
        >>> "trades" in lake.tables
        True
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._lake = LakeStore(location)

    def __repr__(self) -> str:
        return f"Lake({str(self._lake.location)!r})"

    @property
    def location(self) -> Location:
        """Location of the lake; as text a path, or a URI such as ``s3://bucket/lake``."""
        return self._lake.location

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        self._lake.require()
        self._lake.roll_forward()
        return self._lake.table_names()

    @overload
    def table(
        self, name: str, *, engine: Literal["arrow"] = "arrow",
        columns: Sequence[str] | None = None, where: str | None = None, raw: bool = False,
        ordered: bool = True, tz: str = UTC, prices: Prices = "decimal",
    ) -> pa.Table: ...  # fmt: skip
    @overload
    def table(
        self, name: str, *, engine: Literal["pandas"], columns: Sequence[str] | None = None,
        where: str | None = None, raw: bool = False, ordered: bool = True, tz: str = UTC,
        prices: Prices = "decimal",
    ) -> pd.DataFrame: ...  # fmt: skip
    @overload
    def table(
        self, name: str, *, engine: Literal["polars"], columns: Sequence[str] | None = None,
        where: str | None = None, raw: bool = False, ordered: bool = True, tz: str = UTC,
        prices: Prices = "decimal",
    ) -> pl.LazyFrame: ...  # fmt: skip
    @overload
    def table(
        self, name: str, *, engine: Literal["duckdb"], columns: Sequence[str] | None = None,
        where: str | None = None, raw: bool = False, ordered: bool = True, tz: str = UTC,
        prices: Prices = "decimal",
    ) -> DuckDBPyRelation: ...  # fmt: skip
    @overload
    def table(
        self, name: str, *, engine: Literal["spark"], columns: Sequence[str] | None = None,
        where: str | None = None, raw: bool = False, ordered: bool = True, tz: str = UTC,
        prices: Prices = "decimal",
        spark: SparkSession | None = None,
    ) -> SparkDataFrame: ...  # fmt: skip
    def table(
        self,
        name: str,
        *,
        engine: Engine = "arrow",
        columns: Sequence[str] | None = None,
        where: str | None = None,
        raw: bool = False,
        ordered: bool = True,
        tz: str = UTC,
        prices: Prices = "decimal",
        spark: SparkSession | None = None,
    ) -> pa.Table | pd.DataFrame | pl.LazyFrame | DuckDBPyRelation | SparkDataFrame:
        """Return a table with symbols, timestamps and names instead of codes.

        Rows are in event order: by time, then by sequence and index in the packet.

        Args:
            name: Name of a table (``trades``) or view (``v_trades``).
            engine: Type of the result: an Arrow table ("arrow"), a Polars LazyFrame ("polars"), a
                DuckDB relation ("duckdb"), a Spark DataFrame ("spark") or a pandas DataFrame
                ("pandas").
            columns: Columns to read, by default all; pushed down to the files.
            where: Condition in SQL; pushed down to the files.
            raw: Return the columns as stored, with codes.
            ordered: Sort the rows; without it they come in any order, sooner.
            tz: Time zone of the timestamps. Those of DuckDB and Spark cannot have one: they are in
                UTC.
            prices: ``decimal`` for exact prices, ``float`` for calculations and charts.
            spark: Spark session for the engine "spark"; by default a new one.

        Returns:
            The rows, as the engine returns them.

        Raises:
            UsageError: There is no such table, engine or time zone, or the condition is invalid.

        Example:
            >>> rows = lake.table("trades", where="symbol = 'PETR4'", columns=["time", "price"])
            >>> rows.column_names
            ['time', 'price']
        """
        if engine not in _ENGINES:
            raise UsageError(f"engine must be one of {', '.join(_ENGINES)}, was {engine!r}.")
        if prices not in PRICES:
            raise UsageError(f"prices must be one of {', '.join(PRICES)}, was {prices!r}.")
        own = self._name(name, raw)
        zone = parse_zone(tz, "tz").key
        if zone != UTC and engine in ("duckdb", "spark"):
            raise UsageError(f"tz must be UTC with engine={engine!r}, was {tz!r}.")
        if engine == "polars":
            return self._polars(own, columns, where, ordered, zone, prices)
        if engine == "spark":
            return self._on_spark(spark, own, columns, where, ordered, prices)
        sql = self._select(own, columns, where, ordered, prices)
        if engine == "duckdb":
            return self._relation(sql)
        rows = timestamps_in(self.sql(sql), zone)
        return rows if engine == "arrow" else pandas_frame(rows)

    @property
    def trades(self) -> TableReader:
        """Trades, by their times: ``lake.trades("PETR4", since, until)``.

        Example:
            >>> lake.trades("PETR4", columns=["price", "size"]).num_rows > 0
            True
        """
        return self._reader("trades", "time_ns")

    @property
    def ticks(self) -> TableReader:
        """Best ten levels after each event, by the sending times of their packets.

        Example:
            >>> ticks = lake.ticks("PETR4", until="2026-05-21 12:01", engine="pandas")
            >>> bool(ticks["sending_time"].is_monotonic_increasing)
            True
        """
        return self._reader("ticks", "sending_time_ns")

    @property
    def bars(self) -> TableReader:
        """Bars, by their starts; ``interval`` selects their length.

        Example:
            >>> bars = lake.bars("PETR4", interval="1m", engine="pandas", prices="float")
            >>> bool((bars["high"] >= bars["low"]).all())
            True
        """
        return self._reader("bars", "start_ns")

    @property
    def orders(self) -> TableReader:
        """Lives of orders, by the times of their entry.

        Example:
            >>> lake.orders("PETR4", columns=["order_id", "end_reason"]).column_names
            ['order_id', 'end_reason']
        """
        return self._reader("orders", "entered_ns")

    @property
    def instruments(self) -> TableReader:
        """Definitions of instruments, by day.

        Example:
            >>> lake.instruments("PETR4", columns=["symbol", "min_price_increment"]).to_pylist()
            [{'symbol': 'PETR4', 'min_price_increment': Decimal('0.01000000')}]
        """
        return self._reader("instruments", None)

    def _reader(self, table: str, times: str | None) -> TableReader:
        return TableReader(self._lake, table, times, self.table)

    def scan(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        raw: bool = False,
        ordered: bool = True,
        tz: str = UTC,
        prices: Prices = "decimal",
        rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over a table as Arrow record batches, in bounded memory.

        Files, row groups and columns that cannot match are not read. Rows are in event order, as in
        `table`; to sort more rows than fit into memory, files are written to the temporary folder.

        Args:
            name: Name of a table or view.
            columns: Columns to read, by default all.
            where: Condition in SQL.
            raw: Return the columns as stored, with codes.
            ordered: Sort the rows; without it they come in any order, and none is held back.
            tz: Time zone of the timestamps.
            prices: ``decimal`` for exact prices, ``float`` for calculations and charts.
            rows: Maximum number of rows per batch.

        Yields:
            ``pyarrow.RecordBatch``.

        Raises:
            UsageError: ``rows`` is below 1, there is no such table or time zone, or the condition
                is invalid.

        Example:
            >>> batches = lake.scan("ticks", columns=["security_id", "bid_price_1"], rows=1000)
            >>> next(batches).num_columns
            2
        """
        if rows < 1:
            raise UsageError(f"rows must be at least 1, was {rows}.")
        zone = parse_zone(tz, "tz").key
        relation = self.table(
            name,
            engine="duckdb",
            columns=columns,
            where=where,
            raw=raw,
            ordered=ordered,
            prices=prices,
        )
        for batch in relation.to_arrow_reader(rows):
            yield timestamps_in(batch, zone)

    @parameters()
    def sql(
        self,
        query: str,
        parameters: Sequence[Any] = (),
        *,
        engine: Literal["local", "spark"] | None = None,
    ) -> pa.Table:
        """Run a query on tables (``trades``) and views (``v_trades``).

        DuckDB runs it in this process if it can read the lake, else Spark does. The query is one
        SELECT (or WITH, FROM, VALUES, SHOW, DESCRIBE, EXPLAIN); any other text is rejected before
        it runs, and no query reads files other than those of the lake's tables.

        Args:
            query: The query; a ``?`` is a placeholder for a value.
            parameters: The values, in order: never write them into the query's text.
            engine: ``local`` (DuckDB) or ``spark``, whose dialects differ.

        Returns:
            The rows as an Arrow table.

        Raises:
            UsageError: It is not a single query, accesses anything outside the lake, or fails.

        Example:
            >>> rows = lake.sql("SELECT * FROM v_trades WHERE symbol = ? LIMIT 1", ["PETR4"])
            >>> rows.num_rows
            1
        """
        from pregao.lake.execution.runner import EngineName
        from pregao.lake.sql.engines import choose_engine, open_engine

        named = None if engine is None else choice(EngineName, engine, "engine")
        chosen = choose_engine(self._lake, named, spark_wanted=False)
        return open_engine(self._lake, chosen).query(query, parameters).rows()

    def book(
        self,
        instrument: str | int,
        at: Time | None = None,
        *,
        tz: str = UTC,
        day: date | str | None = None,
        channel: int | None = None,
    ) -> LakeBook:
        """Return the book of an instrument after all packets sent up to a time.

        Args:
            instrument: Symbol or security id.
            at: The time; by default the end of the day.
            tz: Time zone of a time without an offset.
            day: The day; by default that of ``at``, or the last one.
            channel: The channel, if the instrument is on several.

        Returns:
            The book, with its state and the last message that it includes.

        Raises:
            UsageError: The time or day is invalid, or the lake has no such instrument or books.

        Example:
            >>> book = lake.book("PETR4", at="2026-05-21 09:02", tz="America/Sao_Paulo")
            >>> book.state.name, book.bids[0].price < book.asks[0].price
            ('VALID', True)
        """
        from pregao.lake.books.book_at import book_at

        when = None if at is None else moment_ns(at, tz)
        wanted = None if day is None else day_from(day)
        return _lake_book(book_at(self._lake, str(instrument).upper(), when, wanted, channel))

    @parameters(channel="channels", feed="feeds", stream="streams")
    def ingest(
        self,
        captures: Path | Iterable[Path],
        *,
        options: IngestOptions | None = None,
        books: bool = True,
        analytics: bool = True,
        spark: SparkSession | None = None,
    ) -> Report:
        """Ingest captures, exactly once; then build books and analytics.

        Args:
            captures: Files, folders or patterns.
            options: Options of the ingest.
            books: Build books afterwards.
            analytics: Build analytics afterwards.
            spark: Spark session to run in; by default large captures are processed in parallel by
                local processes, small ones in this process.

        Returns:
            The report, as written by `pregao ingest --report`.

        Raises:
            CaptureError: A capture cannot be read.
            UsageError: A capture is missing, or an option is invalid.

        Example:
            >>> report = pregao.Lake("new").ingest("day", analytics=False)
            >>> report["messages"]["rejected"]
            0
        """
        from pregao.lake.ingest.pipeline import ingest

        with _runner(spark) as runner:
            location = self._lake.location
            report = ingest(list(paths(captures)), location, options, runner=runner)
            result = Report(report.json())
            if books:
                result["books"] = self._build(runner)
            if analytics:
                from pregao.lake.analytics.run import analyse

                result["analytics"] = [
                    {"date": built.date.isoformat(), "table": built.table, "rows": built.rows}
                    for built in analyse(self._lake, runner)
                ]
        return result

    @parameters(symbol="symbols", date="days", force="force=True")
    def export(
        self,
        what: ExportName,
        output: str | os.PathLike[str],
        *,
        symbols: Symbols = None,
        days: date | str | Iterable[date | str] = (),
        channel: int | None = None,
        depth: int = 10,
        at: Time | None = None,
        checkpoints: bool = False,
        tz: str | None = None,
        safe_csv: bool = False,
        force: bool = False,
    ) -> list[pathlib.Path]:
        """Write ticks, books or instrument days to files for other programs.

        Args:
            what: ``ticks`` or ``book`` for tables, or a format: ``mbo``, ``mbp-10``, ``lobster``,
                ``hftbacktest``, ``hftbacktest-l2``, ``nautilus``.
            output: A .csv, .csv.gz, .csv.zst, .parquet, .arrow or .feather file; .npz for
                hftbacktest; a folder for lobster and nautilus.
            symbols: Symbols or security ids; formats need them.
            days: Days; by default all, or the last one of each symbol for a format.
            channel: Channel, if a symbol is on several.
            depth: Levels per side of ticks and lobster.
            at: Time of the books; by default the end of the day.
            checkpoints: Write all checkpoints of books, not only the last of a day.
            tz: Time zone of ``at`` without an offset (UTC by default), and of the times since
                midnight in lobster files (the market's by default).
            safe_csv: Write texts that a spreadsheet would run as formulas with a quote in front.
            force: Replace existing files.

        Returns:
            The files written.

        Raises:
            UsageError: An argument is invalid, a file exists, or the lake has nothing to write.

        Example:
            >>> [path.name for path in lake.export("mbo", "petr4.parquet", symbols="PETR4")]
            ['petr4.parquet']
        """
        from pregao.lake.books.selection import BookSelection
        from pregao.lake.exports.formats import ExportRequest, write_export

        if what not in get_args(ExportName):
            raise UsageError(
                f"what must be one of {', '.join(get_args(ExportName))}, was {what!r}."
            )
        selection = BookSelection(
            tuple(map(day_from, listed_days(days))),
            () if channel is None else (channel,),
            tuple(
                str(one) for one in ([symbols] if isinstance(symbols, str | int) else symbols or ())
            ),
        )
        request = ExportRequest(
            what=what,
            selection=selection,
            output=os.fspath(output),
            depth=depth,
            at_ns=None if at is None else moment_ns(at, tz or UTC),
            checkpoints=checkpoints,
            zone=tz,
            safe_csv=safe_csv,
            force=force,
        )
        return write_export(self._lake, request).paths

    def audit(
        self, *, symbols: str | Iterable[str] | None = None, days: Iterable[date | str] = ()
    ) -> AuditSummary:
        """Compare the rebuilt books with every snapshot in the captures.

        Args:
            symbols: Only these symbols; by default all.
            days: Only these days; by default all.

        Returns:
            The counts of results, and the differences that no gap explains.

        Raises:
            UsageError: The lake has no books, or no such symbol or day.

        Example:
            >>> lake.audit(symbols="PETR4").passed
            True
        """
        from pregao.lake.books.selection import BookSelection, audit_summary

        selection = BookSelection(tuple(map(day_from, listed_days(days))), (), listed(symbols))
        return audit_summary(self._lake, selection)

    def _name(self, name: str, raw: bool) -> str:
        """Return the view of a table, unless its columns are requested as stored."""
        from pregao.lake.views.definitions import view_names

        views = view_names(self.tables)
        if name in views:
            return views[name] if raw else name
        self._lake.delta(name)  # raises an error that lists the tables
        return name if raw else next(view for view, table in views.items() if table == name)

    def _columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table or view, with the names of their types."""
        from pregao.lake.views.definitions import column_type, define_view

        if name in self._lake.table_names():
            return {each.name: str(each.type) for each in self._lake.schema(name)}
        view = define_view(self._lake, name)
        schema = self._lake.schema(view.table)
        return {each.name: column_type(each, schema) for each in view.columns}

    def _select(
        self,
        name: str,
        columns: Sequence[str] | None,
        where: str | None,
        ordered: bool,
        prices: Prices,
    ) -> str:
        """Return the query for rows of a table or view."""
        from pregao.lake.views.sql import event_order

        known = self._columns(name)
        decimals = {each for each, kind in known.items() if kind.startswith("decimal")}
        chosen = ", ".join(
            f"CAST({_quoted(each)} AS DOUBLE) AS {_quoted(each)}"
            if prices == "float" and each in decimals
            else _quoted(each)
            for each in (known if columns is None else columns)
        )
        condition = "" if where is None else f" WHERE {where}"
        source = f"{_quoted(name)}{condition}"
        if not ordered:
            # A query that only lists rows of a view would sort them.
            return f"SELECT {chosen} FROM (FROM {source})"  # noqa: S608 - the user's own query
        keys = ", ".join(map(_quoted, event_order(known)))
        return f"SELECT {chosen} FROM {source} ORDER BY {keys}"  # noqa: S608 - the user's own query

    def _on_spark(
        self,
        session: Any,
        name: str,
        columns: Sequence[str] | None,
        where: str | None,
        ordered: bool,
        prices: Prices,
    ) -> Any:
        from pregao.lake.sql.spark_tables import connect
        from pregao.lake.views.sql import event_order

        frame = connect(self._lake.location, session).table(name)
        frame = frame if where is None else frame.where(where)
        frame = frame.orderBy(*event_order(frame.columns)) if ordered else frame
        frame = frame if columns is None else frame.select(*columns)
        if prices == "float":
            found = [each for each, kind in frame.dtypes if kind.startswith("decimal")]
            frame = frame.withColumns({each: frame[each].cast("double") for each in found})
        return frame

    def _polars(
        self,
        name: str,
        columns: Sequence[str] | None,
        where: str | None,
        ordered: bool,
        tz: str,
        prices: Prices,
    ) -> Any:
        from pregao.lake.views.polars import scan
        from pregao.lake.views.sql import event_order

        frame = scan(self._lake, name)
        if where is not None:
            import polars

            frame = frame.filter(polars.sql_expr(where))
        if ordered:
            keys = event_order(frame.collect_schema().names())
            frame = frame.sort(keys, maintain_order=True)
        return polars_typed(frame if columns is None else frame.select(columns), tz, prices)

    def _relation(self, sql: str) -> Any:
        from pregao.lake.execution.runner import EngineName
        from pregao.lake.sql.duckdb_engine import DuckdbEngine
        from pregao.lake.sql.engines import choose_engine

        choose_engine(self._lake, EngineName.LOCAL, spark_wanted=False)
        return DuckdbEngine(self._lake).query(sql).relation

    def _build(self, runner: Runner) -> list[dict[str, Any]]:
        from pregao.lake.books.build import build_books
        from pregao.lake.books.catalog import FileCatalog

        if not FileCatalog(self._lake).dates():
            return []  # neither orders nor snapshots
        return [built.json() for built in build_books(self._lake.location, runner=runner)]


def _runner(spark: Any) -> Runner:
    """Return a runner on a Spark session, or in local processes without one."""
    if spark is not None:
        from pregao.lake.execution.spark import SparkRunner

        return SparkRunner(spark)
    from pregao.lake.execution.processes import ProcessRunner

    return ProcessRunner()


def listed_days(days: date | str | Iterable[date | str]) -> tuple[date | str, ...]:
    """Return one day or several as a tuple."""
    return (days,) if isinstance(days, date | str) else tuple(days)


def _quoted(name: str) -> str:
    from pregao.lake.sql.duckdb_session import quoted_name

    return quoted_name(name)


def _lake_book(moment: HistoricalBook) -> LakeBook:
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
        price_of(moment.last_price),
        moment.trade_volume,
        moment.sequence_version,
        moment.sequence_number,
        moment.sending_time_ns,
        moment.data_ends_ns,
        moment.current,
        moment.reason,
    )
