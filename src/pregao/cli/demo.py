"""``pregao demo``: a market simulated, captured, taken into a lake and asked, without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from pregao.clock import MINUTE
from pregao.errors import UsageError

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao demo",
        "The same captures are written each time; a lake that holds them already is left alone.",
    )
)
INSTRUMENTS = 12


class Question(NamedTuple):
    """Something to ask of the lake."""

    words: str
    sql: str


QUESTIONS = [
    Question(
        "What was traded?",
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
               percentile(feed_difference_ns, 0.5) AS median_lead_ns,
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
    """Simulate a session, take it into a lake, ask it three questions, and say how to go on."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from None
    run(folder)


def run(folder: Path, duration_ns: int = 3 * MINUTE) -> None:
    """Simulate, take in, ask; what is there from an earlier run is used again."""
    from pregao.cli.ingest import show as show_ingest
    from pregao.cli.query_output import show as show_rows
    from pregao.cli.terminal import console, say
    from pregao.exchange.simulation import Settings, Simulation
    from pregao.lake.analytics.analyse import analyse
    from pregao.lake.ingest import ingest
    from pregao.lake.spark import connect, merge_on_spark, on_spark, spark_session
    from pregao.lake.sql.spark_engine import SparkEngine
    from pregao.lake.store import Lake

    out = console()
    captures, lake = folder / "captures", folder / "lake"
    say(out, f"Simulating a session of {INSTRUMENTS} instruments …")
    settings: dict[str, Any] = {"instruments": INSTRUMENTS, "duration_ns": duration_ns}
    summary = Simulation(Settings("equities", captures, force=True, **settings)).run()
    say(out, f"{summary.data['messages']:,} messages written to {captures}")
    say(out, "Taking the captures into a lake, on Spark …")
    spark = spark_session()
    report = ingest([str(captures)], str(lake), run=on_spark(spark), merge=merge_on_spark(spark))
    show_ingest(report, str(lake))
    say(out, "Making a table of trades, with busts and corrections applied …")
    analyse(spark, Lake(str(lake)), tables=["trades"])
    engine = SparkEngine(connect(lake, spark))
    for question in QUESTIONS:
        say(out, f"\n{question.words}", "bold")
        show_rows(engine.ask(question.sql), 20)
    where = lake
    say(out, f"\nThe lake is in {where}. Go on with")
    say(out, f"  pregao lake tables --lake {where}")
    example = "SELECT * FROM trades WHERE NOT busted LIMIT 5"
    say(out, f'  pregao query "{example}" --lake {where}')
    first = captures / "051_Incremental_A.pcap"
    say(out, f"  pregao decode {first} --limit 5")
