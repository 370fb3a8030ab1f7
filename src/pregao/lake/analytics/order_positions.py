"""Orders removed by deletions from the top of a side, and likely chains of iceberg orders.

In schema versions below 15, a deletion from the top has only the number of orders removed. Tracking
the positions of all orders of that side identifies them.

When the displayed part of an iceberg order is filled, the next part enters the book in the same
event, under a new number: an order of the same firm, side and price. The public feed allows only a
guess; two orders of a firm at one price look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pregao.lake.analytics.engine import DataFrame, F, spark_type
from pregao.lake.analytics.order_snapshots import SNAPSHOT
from pregao.lake.analytics.reading import INSTRUMENT
from pregao.lake.analytics.tables import column
from pregao.umdf.templates import UpdateAction, by_name

ACTIONS = by_name("MDUpdateAction", {action.value: action.name for action in UpdateAction})
"""One name of each update action for the names of all schema versions."""
DELETE_FROM = UpdateAction.DELETE_FROM.name
DELETE_THRU = UpdateAction.DELETE_THRU.name

REMOVED = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("secondary_order_id", pa.int64(), "Removed order."),
    column("side", pa.string(), "Its side."),
    column("place", pa.int64(), "Event key of the message that removed it."),
    column("event", pa.int64(), "Event of that message."),
    column("time_ns", pa.int64(), "Time of that message."),
)

_USED = (
    "channel", "security_id", "secondary_order_id", "side", "action", "position", "place",
    "event", "time_ns",
)  # fmt: skip
_SIDES = ("BUY", "SELL")

LINKS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("secondary_order_id", pa.int64(), "Order."),
    column("replenishes", pa.int64(), "Order that it replaced; null for the first."),
    column("chain", pa.int64(), "First order of the chain."),
    column("chain_position", pa.int32(), "Position in the chain, from 1."),
)


def removed_orders(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the orders of one instrument removed by deletions from the top; rows are in order.

    A side that a position contradicts, such as one whose start was not received, is ignored until
    it is emptied or a snapshot has its orders.
    """
    sides: dict[str, list[int | None] | None] = {side: [] for side in _SIDES}
    for row in rows:
        if row["side"] is None or row["action"] == DELETE_THRU:
            for side in _SIDES if row["side"] is None else (row["side"],):
                sides[side] = []
            continue
        orders = sides[row["side"]]
        position = row["position"]
        if orders is None:
            continue
        added = row["action"] in ("NEW", SNAPSHOT)
        last = len(orders) + added
        if position is None or not 1 <= position <= last:
            sides[row["side"]] = None
        elif added:
            orders.insert(position - 1, row["secondary_order_id"])
        elif row["action"] == "DELETE":
            del orders[position - 1]
        elif row["action"] == DELETE_FROM:
            names = [field.name for field in REMOVED if field.name != "secondary_order_id"]
            for order in orders[:position]:
                yield {"secondary_order_id": order, **{name: row[name] for name in names}}
            del orders[:position]


def removal_rows(acts: DataFrame) -> DataFrame:
    """Return the orders of all instruments removed by deletions from the top."""
    schema = pa.schema([pa.field(field.name, field.type) for field in REMOVED])

    def follow(rows: Any) -> Any:
        # The orders of a snapshot have one event key: sort them by position.
        ordered = rows.sort_by([("place", "ascending"), ("position", "ascending")]).to_pylist()
        return pa.Table.from_pylist(list(removed_orders(ordered)), schema)

    concerned = acts.where(F.col("action") == DELETE_FROM).select(*INSTRUMENT).distinct()
    named = ", ".join(f"{field.name} {spark_type(field.type)}" for field in REMOVED)
    return (
        acts.select(*_USED)
        .join(F.broadcast(concerned), list(INSTRUMENT), "left_semi")
        .groupBy(*INSTRUMENT)
        .applyInArrow(follow, named)
    )


def chains(links: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield each order of the (order, replenished order) pairs with its predecessor, chain and
    position.
    """
    before = dict(links)
    first = {order for order in before.values() if order not in before}
    known: dict[int, tuple[int, int]] = {order: (order, 1) for order in first}
    for order in sorted(first):
        yield order, None, order, 1
    # Later numbers are larger, so that the replenished order was processed before.
    for order in sorted(before):
        chain, position = known.get(before[order], (before[order], 1))
        known[order] = chain, position + 1
        yield order, before[order], chain, position + 1


def with_chains(orders: DataFrame) -> DataFrame:
    """Add the chain of each order; null for most."""
    alike = [*INSTRUMENT, "side", "price", "firm", "moment"]
    filled = orders.where(F.col("end_reason") == "FILLED").select(
        *INSTRUMENT,
        "side",
        "price",
        "firm",
        F.col("last_moment").alias("moment"),
        F.col("secondary_order_id").alias("replenishes"),
        "end_place",
    )
    entered = orders.where(F.col("entered_in_trading")).select(
        *alike, "secondary_order_id", "place"
    )
    links = (
        entered.join(filled, alike)
        .where(F.col("end_place") < F.col("place"))
        .groupBy(*INSTRUMENT, "secondary_order_id")
        .agg(F.max_by("replenishes", "end_place").alias("replenishes"))
    )
    schema = pa.schema([pa.field(field.name, field.type) for field in LINKS])

    def follow(rows: Any) -> Any:
        found = rows.to_pylist()
        instrument = {name: found[0][name] for name in INSTRUMENT}
        pairs = [(row["secondary_order_id"], row["replenishes"]) for row in found]
        names = [field.name for field in LINKS[len(INSTRUMENT) :]]
        return pa.Table.from_pylist(
            [{**instrument, **dict(zip(names, link, strict=True))} for link in chains(pairs)],
            schema,
        )

    named = ", ".join(f"{field.name} {spark_type(field.type)}" for field in LINKS)
    linked = links.groupBy(*INSTRUMENT).applyInArrow(follow, named)
    return orders.join(linked, [*INSTRUMENT, "secondary_order_id"], "left")
