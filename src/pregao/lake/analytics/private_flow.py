"""EntryPoint reports about orders on the public feed, and the times of their requests.

Reports of the private flow have the number that the public feed shows (``secondaryOrderID``), and
the times of the PUMA model that the public feed lacks: T1 the client sends, T2 the gateway
receives, T4 the matching engine receives, T6 the gateway answers.
"""

from __future__ import annotations

from pregao.lake.analytics.engine import DataFrame, F, all_of
from pregao.lake.analytics.reading import LakeDay

REQUESTS = (
    "ep_simple_new_order",
    "ep_new_order_single",
    "ep_simple_modify_order",
    "ep_order_cancel_replace_request",
    "ep_order_cancel_request",
)
"""Tables of the requests that cause public messages."""
ENTRIES = ("ep_execution_report_new", "ep_execution_report_modify")
"""Tables of the reports by which an order gets its public number."""
REPORTS = (*ENTRIES, "ep_execution_report_cancel")
"""Tables of the reports that answer a request."""
TIMES = ("t1_ns", "t2_ns", "t4_ns", "t6_ns")


def answers(day: LakeDay, tables: tuple[str, ...] = REPORTS) -> DataFrame | None:
    """Return the reports of some tables with the times of their requests; None without reports."""
    reports = [name for name in tables if day.has(name)]
    if not reports:
        return None
    found = all_of(_answers(day, name) for name in reports)
    requests = [name for name in REQUESTS if day.has(name)]
    if not requests:
        return found.withColumn("t1_ns", F.lit(None).cast("bigint"))
    sent = all_of(_sent(day, name) for name in requests)
    first = sent.groupBy("session_id", "cl_ord_id").agg(F.min("t1_ns").alias("t1_ns"))
    return found.join(first, ["session_id", "cl_ord_id"], "left")


def _answers(day: LakeDay, name: str) -> DataFrame:
    """Return the reports of a table, by request."""
    return day.table(name).select(
        "security_id",
        "secondary_order_id",
        "order_id",
        F.col("business_header.session_id").alias("session_id"),
        "cl_ord_id",
        F.col("received_time_ns").alias("t2_ns"),
        F.col("market_segment_received_time_ns").alias("t4_ns"),
        F.col("transact_time_ns").alias("t5_ns"),
        F.col("business_header.sending_time_ns").alias("t6_ns"),
    )


def _sent(day: LakeDay, name: str) -> DataFrame:
    """Return the sending times of the requests of a table."""
    return day.table(name).select(
        F.col("business_header.session_id").alias("session_id"),
        "cl_ord_id",
        F.col("business_header.sending_time_ns").alias("t1_ns"),
    )
