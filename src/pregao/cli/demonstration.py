"""The work of ``pregao demo``: a simulated session, a lake made of it, three questions to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape

from pregao.cli import query_rows
from pregao.cli.ingest import show as show_ingest
from pregao.cli.render import console
from pregao.clock import MINUTE
from pregao.exchange.simulation import Simulation
from pregao.exchange.simulation_settings import Settings
from pregao.lake.ingest import ingest
from pregao.lake.spark import connect, merge_on_spark, on_spark, spark_session

INSTRUMENTS = 12


class Question(NamedTuple):
    """Something to ask of the lake."""

    words: str
    sql: str


QUESTIONS = [
    Question(
        "What was traded?",
        """
        SELECT i.symbol, count(*) AS trades, sum(t.md_entry_size) AS volume,
               min(t.md_entry_px) AS low, max(t.md_entry_px) AS high,
               CAST(sum(t.md_entry_px * t.md_entry_size) / sum(t.md_entry_size) AS DECIMAL(18, 4))
                 AS vwap
        FROM umdf_trade_53 t JOIN instruments i USING (date, channel, security_id)
        GROUP BY i.symbol ORDER BY trades DESC LIMIT 5
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


def run(folder: Path, duration_ns: int = 3 * MINUTE) -> None:
    """Simulate, take in, ask; what is there from an earlier run is used again."""
    out = console()
    captures, lake = folder / "captures", folder / "lake"
    out.print(f"Simulating a session of {INSTRUMENTS} instruments …")
    settings: dict[str, Any] = {"instruments": INSTRUMENTS, "duration_ns": duration_ns}
    summary = Simulation(Settings("equities", captures, force=True, **settings)).run()
    out.print(f"{summary.data['messages']:,} messages written to {escape(str(captures))}")
    out.print("Taking the captures into a lake, on Spark …")
    spark = spark_session()
    report = ingest([str(captures)], str(lake), run=on_spark(spark), merge=merge_on_spark(spark))
    show_ingest(report, str(lake))
    session = connect(lake, spark)
    for question in QUESTIONS:
        out.print(f"\n[bold]{question.words}[/bold]")
        query_rows.show(session, session.sql(question.sql), 20)
    where = escape(str(lake))
    out.print(f"\nThe lake is in {where}. Go on with")
    out.print(f"  pregao lake tables --lake {where}", highlight=False)
    example = "SELECT * FROM umdf_trade_53 LIMIT 5"
    out.print(f'  pregao query "{example}" --lake {where}', highlight=False)
    first = escape(str(captures / "051_Incremental_A.pcap"))
    out.print(f"  pregao decode {first} --limit 5", highlight=False)
