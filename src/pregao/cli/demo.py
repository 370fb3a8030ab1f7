"""``pregao demo``: simulate a session, ingest it, query it, audit its books and plot one.

Without matplotlib, the book is drawn with block characters in the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pregao.clock import MINUTE
from pregao.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.book.levels import Level
    from pregao.lake.ingest.report import IngestReport

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao demo",
        "Every run writes the same captures; a lake that already contains them is not changed. "
        "Without Java, everything runs in this process.",
    )
)
INSTRUMENTS = 12
LADDER = 6
"""Levels of a book to print."""

_BLOCKS = " ▏▎▍▌▋▊▉█"
_BAR_WIDTH = 48
_DRAWN_LEVELS = 8


class DemoQuery(NamedTuple):
    """A query with its heading."""

    words: str
    sql: str


QUESTIONS = [
    DemoQuery(
        "Most traded instruments (busted trades excluded)",
        """
        SELECT symbol, count(*) AS trades, sum(size) AS volume, min(price) AS low,
               max(price) AS high,
               CAST(sum(price * size) / sum(size) AS DECIMAL(18, 4)) AS vwap
        FROM trades WHERE NOT busted
        GROUP BY symbol ORDER BY trades DESC LIMIT 5
        """,
    ),
    DemoQuery(
        "Which feed was faster, and by how much?",
        """
        SELECT feed AS first, count(*) AS packets,
               median(feed_difference_ns) AS median_lead_ns,
               max(feed_difference_ns) AS longest_lead_ns
        FROM (SELECT DISTINCT channel, sequence_version, sequence_number, feed, feed_difference_ns
              FROM umdf_order_mbo_50 WHERE stream = 'incremental')
        GROUP BY feed ORDER BY feed
        """,
    ),
    DemoQuery(
        "Packets by outcome",
        """
        SELECT stream, feed, outcome, count(*) AS packets, sum(message_count) AS messages,
               sum(size) AS bytes
        FROM packets GROUP BY stream, feed, outcome ORDER BY stream, feed, outcome
        """,
    ),
]


def demo(
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Output folder.")
    ] = Path("demo-output"),
) -> None:
    """Simulate a session, ingest it into a lake, query it, audit its books and plot one."""
    from pregao.extras import require

    require("deltalake", "duckdb")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot create folder {folder}: {error.strerror}.") from None
    run(folder)


def run(folder: Path, duration_ns: int = 3 * MINUTE) -> None:
    """Run all steps of the demo; the lake of an earlier run is reused."""
    from pregao.cli.book import show as show_book
    from pregao.cli.console import console, print_line
    from pregao.cli.ingest import show as show_ingest
    from pregao.cli.query import show as show_rows
    from pregao.exchange.simulation.settings import SimulationSettings
    from pregao.exchange.simulation.simulation import Simulation
    from pregao.lake.analytics.run import analyse
    from pregao.lake.books.book_at import book_at
    from pregao.lake.books.build import build_books
    from pregao.lake.books.selection import audit_summary
    from pregao.lake.execution.runner import EngineName
    from pregao.lake.sql.engines import open_engine
    from pregao.lake.storage.lake_store import LakeStore

    out = console()
    captures, lake = folder / "captures", folder / "lake"
    print_line(out, f"Simulating a session of {INSTRUMENTS} instruments …")
    settings: dict[str, Any] = {"instruments": INSTRUMENTS, "duration_ns": duration_ns}
    summary = Simulation(SimulationSettings("equities", captures, force=True, **settings)).run()
    print_line(out, f"{summary.data['messages']:,} messages written to {captures}")
    show_ingest(_ingest(out, captures, lake), str(lake))
    store = LakeStore(str(lake))
    print_line(out, "Rebuilding every book and comparing it with every snapshot of the exchange …")
    build_books(store.location)
    print_line(out, "Building tables of trades and bars, with busts and corrections applied …")
    analyse(store, tables=["trades", "bars"])
    engine = open_engine(store, EngineName.LOCAL)
    for question in QUESTIONS:
        print_line(out, f"\n{question.words}", "bold")
        show_rows(engine.query(question.sql), 20)
    symbol = str(engine.query(QUESTIONS[0].sql).rows()["symbol"][0].as_py())
    print_line(out, f"\nFinal book of {symbol}:", "bold")
    book = book_at(store, symbol)
    show_book(book, LADDER, with_orders=False)
    audit = audit_summary(store)
    print_line(out, "\nBook audit", "bold")
    compared = audit.snapshots - audit.results["void"]
    print_line(
        out,
        f"{audit.results['equal']:,} of {compared:,} snapshots of {audit.instruments:,} "
        "instruments equal the rebuilt books, order by order.",
        "green" if audit.passed else "red",
    )
    _draw(out, folder, lake, symbol)
    _print_next_steps(out, folder, symbol)


def _ingest(out: Console, captures: Path, lake: Path) -> IngestReport:
    """Ingest the captures on Spark, or in this process if Spark or Java is missing."""
    from pregao.cli.console import print_line
    from pregao.extras import require
    from pregao.lake.ingest.pipeline import ingest

    try:
        require("pyspark")
        from pregao.lake.execution.spark_session import find_java

        find_java()
    except UsageError as error:
        print_line(out, f"Ingesting the captures into a lake, in this process ({error}) …")
        return ingest([str(captures)], str(lake))
    from pregao.lake.execution.spark import SparkRunner
    from pregao.lake.execution.spark_session import spark_session

    print_line(out, "Ingesting the captures into a lake, on Spark …")
    return ingest([str(captures)], str(lake), runner=SparkRunner(spark_session()))


def _draw(out: Console, folder: Path, lake: Path, symbol: str) -> None:
    """Plot a heatmap of the book; without matplotlib, draw the final book as text."""
    from pregao.cli.console import print_line
    from pregao.extras import installed

    print_line(out, f"\nChart of {symbol}", "bold")
    if installed("matplotlib"):
        from pregao import plot

        path = folder / f"{symbol}.png"
        plot.heatmap(lake, symbol).savefig(path, dpi=150)
        print_line(out, f"{path}: heatmap of the book, with trades.")
        return
    from pregao.api.lake import Lake

    book = Lake(lake).book(symbol)
    for line, style in drawing(book.bids, book.asks):
        print_line(out, line, style)
    print_line(
        out, "(Install matplotlib, `pip install 'pregao[plot]'`, for a heatmap of the book.)"
    )


def _print_next_steps(out: Console, folder: Path, symbol: str) -> None:
    from pregao.cli.console import print_line

    captures, lake = folder / "captures", folder / "lake"
    first = captures / "051_Incremental_A.pcap"
    print_line(out, f"\nThe lake is in {lake}. Next steps:", "bold")
    for command in (
        f"pregao decode {first} --limit 5",
        f'pregao query "SELECT time, price, size FROM v_trades LIMIT 5" --lake {lake}',  # noqa: S608
        f"pregao query --example vwap_by_minute --lake {lake}",
        f"pregao book {symbol} --lake {lake} --orders",
        f"pregao plot tape {symbol} --lake {lake} -o tape.png",
        f"pregao export lobster --symbol {symbol} --lake {lake} -o lobster",
        "pregao live --demo",
    ):
        print_line(out, f"  {command}")


def drawing(
    bids: Sequence[Level], asks: Sequence[Level], depth: int = _DRAWN_LEVELS
) -> Iterator[tuple[str, str]]:
    """Yield (line, color): asks above, bids below, with a bar for the quantity of each level."""
    above, below = list(asks[:depth]), list(bids[:depth])
    largest = max((level.size for level in (*above, *below)), default=1)
    for level in reversed(above):
        yield _line(level, largest), "red"
    for level in below:
        yield _line(level, largest), "green"


def _line(level: Level, largest: int) -> str:
    eighths = max(1, round(level.size / largest * _BAR_WIDTH * 8))
    bar = "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()
    price = "market" if level.price is None else f"{level.price:,.4f}"
    return f"{price:>14} {bar:<{_BAR_WIDTH}} {level.size:>10,}"
