"""Order flow of an instrument's day, read from the tables of a lake, in this process.

The rule of the table ``orders`` decides whether a trade reduced an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import pyarrow as pa

from pregao.errors import UsageError
from pregao.lake.analytics.analyse import analyse
from pregao.lake.analytics.engine import F, local_engine
from pregao.lake.analytics.here.session import LocalSession
from pregao.lake.analytics.orders import book_clearings, order_acts
from pregao.lake.analytics.reading import LakeDay, LakeTables
from pregao.lake.books.span import BookInstrument
from pregao.lake.exports.acts import OFF_BOOK, OrderFlow
from pregao.lake.exports.flow_rows import joined
from pregao.lake.store.lake import LakeStore

_PACKET = ("sequence_version", "sequence_number")
_ACT_COLUMNS = (
    "place", "event", *_PACKET, "secondary_order_id", "side", "action", "price", "size",
    "filled", "recovery", "position", "aggressor_side", "time_ns", "sending_time_ns",
    "capture_time_ns",
)  # fmt: skip


def order_flow(lake: LakeStore, instrument: BookInstrument) -> OrderFlow:
    """Return all acts of an instrument's day. Updates the table ``trades`` first."""
    analyse(None, lake, dates=[instrument.date], tables=["trades"])
    with _opened(lake, instrument.date) as day:
        acts = _rows(day, order_acts(day), instrument, _ACT_COLUMNS)
        clearings = _rows(
            day,
            book_clearings(day),
            instrument,
            ("place", "side", "time_ns"),
            timed=False,
        )
        trades = _trades(day, instrument)
    if not acts.num_rows:
        raise UsageError(
            f"{instrument.symbol or instrument.security_id} has no orders of Binary UMDF on "
            f"{instrument.date}, which this format requires; `pregao export ticks` has levels."
        )
    return joined(acts, clearings, trades)


@contextmanager
def _opened(lake: LakeStore, day: date) -> Iterator[LakeDay]:
    with local_engine(), LocalSession(lake) as session:
        tables = LakeTables(session, lake)
        try:
            yield tables.day(day)
        finally:
            tables.release()


def _rows(
    day: LakeDay,
    frame: Any,
    instrument: BookInstrument,
    names: tuple[str, ...],
    *,
    timed: bool = True,
) -> Any:
    own = frame.where(
        (F.col("channel") == instrument.channel) & (F.col("security_id") == instrument.security_id)
    )
    if timed:
        packets = (
            day.table("packets")
            .where((F.col("stream") == "incremental") & (F.col("outcome") == "decoded"))
            .where(F.col("channel") == instrument.channel)
            .groupBy(*_PACKET)
            .agg(
                F.min("sending_time_ns").alias("sending_time_ns"),
                F.min("capture_time_ns").alias("capture_time_ns"),
            )
        )
        own = own.join(packets, list(_PACKET), "left")
    return _table(day, own.select(*names))


def _trades(day: LakeDay, instrument: BookInstrument) -> Any:
    """Return the trades at their first publication, without busted ones."""
    own = day.table("trades").where(
        (F.col("channel") == instrument.channel)
        & (F.col("security_id") == instrument.security_id)
        & (F.col("busted") == F.lit(False))
    )
    names = (
        *_PACKET, "index_in_packet", "event", "trade_id", "aggressor_side", "price", "size",
        "time_ns", "sending_time_ns", "capture_time_ns", *OFF_BOOK,
    )  # fmt: skip
    return _table(day, own.select(*names))


def _table(day: LakeDay, frame: Any) -> Any:
    batches = list(day.spark.batches(frame.sql()))
    if batches:
        return pa.Table.from_batches(batches)
    return pa.table({name: pa.nulls(0, pa.int64()) for name in frame.columns})
