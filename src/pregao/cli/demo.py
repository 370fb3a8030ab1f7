"""``pregao demo``: a session simulated, taken into a lake, asked, proved and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pregao.clock import MINUTE
from pregao.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.lake.ingest import Report

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao demo",
        "The same captures are written each time; a lake that holds them already is left alone. "
        "Without Java all of it is done in this process.",
    )
)
INSTRUMENTS = 12
LADDER = 6
"""Levels that are shown of a book."""


class Question(NamedTuple):
    """Something to ask of the lake."""

    words: str
    sql: str


QUESTIONS = [
    Question(
        "What was traded? (Busted trades are left out.)",
        """
        SELECT symbol, count(*) AS trades, sum(size) AS volume, min(price) AS low,
               max(price) AS high,
               CAST(sum(price * size) / sum(size) AS DECIMAL(18, 4)) AS vwap
        FROM trades WHERE NOT busted
        GROUP BY symbol ORDER BY trades DESC LIMIT 5
        """,
    ),
    Question(
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
    Question(
        "What became of every packet?",
        """
        SELECT stream, feed, outcome, count(*) AS packets, sum(message_count) AS messages,
               sum(size) AS bytes
        FROM packets GROUP BY stream, feed, outcome ORDER BY stream, feed, outcome
        """,
    ),
]


def demo(
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write.")
    ] = Path("demo-output"),
) -> None:
    """Simulate a session, take it into a lake, ask it, prove its books, draw one."""
    from pregao.extras import require

    require("deltalake", "duckdb")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from None
    run(folder)


def run(folder: Path, duration_ns: int = 3 * MINUTE) -> None:
    """Do it all; what is there from an earlier run is used again."""
    from pregao.cli.book import show as show_book
    from pregao.cli.ingest import show as show_ingest
    from pregao.cli.query_output import show as show_rows
    from pregao.cli.terminal import console, say
    from pregao.exchange.simulation import Settings, Simulation
    from pregao.lake.analytics.analyse import analyse
    from pregao.lake.books import audit_summary, book_at, build_books, run_books_here
    from pregao.lake.sql import EngineName, open_engine
    from pregao.lake.store import Lake

    out = console()
    captures, lake = folder / "captures", folder / "lake"
    say(out, f"Simulating a session of {INSTRUMENTS} instruments …")
    settings: dict[str, Any] = {"instruments": INSTRUMENTS, "duration_ns": duration_ns}
    summary = Simulation(Settings("equities", captures, force=True, **settings)).run()
    say(out, f"{summary.data['messages']:,} messages written to {captures}")
    show_ingest(_take_in(out, captures, lake), str(lake))
    place = Lake(str(lake))
    say(out, "Rebuilding every book, and comparing it with every snapshot of the exchange …")
    build_books(place.location, run=run_books_here)
    say(out, "Making tables of trades and bars, with busts and corrections applied …")
    analyse(None, place, tables=["trades", "bars"])
    engine = open_engine(place, EngineName.DUCKDB)
    for question in QUESTIONS:
        say(out, f"\n{question.words}", "bold")
        show_rows(engine.ask(question.sql), 20)
    symbol = str(engine.ask(QUESTIONS[0].sql).rows()["symbol"][0].as_py())
    say(out, f"\nThe book of {symbol} at the end:", "bold")
    book = book_at(place, symbol)
    show_book(book, LADDER, with_orders=False)
    audit = audit_summary(place)
    say(out, "\nWere the books right?", "bold")
    compared = audit.snapshots - audit.results["void"]
    say(
        out,
        f"{audit.results['equal']:,} of {compared:,} snapshots equal, order by order and in "
        f"sequence, of {audit.instruments:,} instruments.",
        "green" if audit.passed else "red",
    )
    _draw(out, folder, lake, symbol)
    _go_on(out, folder, symbol)


def _take_in(out: Console, captures: Path, lake: Path) -> Report:
    """Take the captures in: on Spark, or in this process where Spark or Java is missing."""
    from pregao.cli.terminal import say
    from pregao.extras import require
    from pregao.lake.ingest import ingest, merge_here, run_here

    try:
        require("pyspark")
        from pregao.lake.spark import find_java

        find_java()
    except UsageError as error:
        say(out, f"Taking the captures into a lake, in this process ({error}) …")
        return ingest([str(captures)], str(lake), run=run_here, merge=merge_here)
    from pregao.lake.spark import merge_on_spark, on_spark, spark_session

    say(out, "Taking the captures into a lake, on Spark …")
    spark = spark_session()
    return ingest([str(captures)], str(lake), run=on_spark(spark), merge=merge_on_spark(spark))


def _draw(out: Console, folder: Path, lake: Path, symbol: str) -> None:
    """A picture of the book over time; without matplotlib a drawing of it as it is now."""
    from pregao.cli.terminal import say
    from pregao.extras import installed

    say(out, f"\nA picture of {symbol}", "bold")
    if installed("matplotlib"):
        from pregao import plot

        picture = folder / f"{symbol}.png"
        plot.heatmap(lake, symbol).savefig(picture, dpi=150)
        say(out, f"{picture}: the book over time, and the trades on it.")
        return
    from pregao.api import Lake
    from pregao.cli.demo_drawing import drawing

    book = Lake(lake).book(symbol)
    for line, style in drawing(book.bids, book.asks):
        say(out, line, style)
    say(out, "(With matplotlib, `pip install 'pregao[plot]'`, it is one of the book over time.)")


def _go_on(out: Console, folder: Path, symbol: str) -> None:
    from pregao.cli.terminal import say

    captures, lake = folder / "captures", folder / "lake"
    first = captures / "051_Incremental_A.pcap"
    say(out, f"\nThe lake is in {lake}. What to try next:", "bold")
    for command in (
        f"pregao decode {first} --limit 5",
        f'pregao query "SELECT time, price, size FROM v_trades LIMIT 5" --lake {lake}',  # noqa: S608
        f"pregao query --example vwap_by_minute --lake {lake}",
        f"pregao book {symbol} --lake {lake} --orders",
        f"pregao plot tape {symbol} --lake {lake} -o tape.png",
        f"pregao export lobster --symbol {symbol} --lake {lake} -o lobster",
        "pregao live --demo",
    ):
        say(out, f"  {command}")
