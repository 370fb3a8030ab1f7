"""The messages of the book: orders, deletions, whole sides, and the orders of a snapshot."""

from __future__ import annotations

from collections.abc import Callable

from pregao.errors import SchemaError
from pregao.exchange.engine.events import MassDeleteOrders, OrderAdded, OrderChanged, OrderDeleted
from pregao.exchange.engine.terms import Side
from pregao.exchange.publisher.encoding.fields import (
    FLAGS,
    RPT_SEQ,
    enum_number,
    known_fields,
    template,
)
from pregao.sbe import Taken
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.values import Reading, readings
from pregao.schemas import bundled

OrderItem = OrderAdded | OrderChanged
"""An order as it was last published."""

_BUY = Side.BUY
_POSITION = "mDEntryPositionNo"
_ACTION = "mDUpdateAction"
_TYPE = "mDEntryType"
_TIMES = ("transactTime", "mDEntryTimestamp")
_ORDER_FIELDS = {
    "security_id": "securityID",
    "price": "mDEntryPx",
    "size": "mDEntrySize",
    "firm": "enteringFirm",
    "insert_time_ns": "mDInsertTimestamp",
    "secondary_order_id": "secondaryOrderID",
}


def _codec(schema: SchemaCodec, name: str) -> MessageCodec:
    codec = template(schema, name)
    if codec is None:
        raise SchemaError(f"version {schema.schema.version} of the feed has no message {name}")
    return codec


def tells_places(version: int | str) -> bool:
    """Do orders carry their places in this version of the feed? Below 15 they do."""
    order = _codec(SchemaCodec(bundled("umdf", version)), "Order_MBO_50")
    return _is_placed(known_fields(order))


def _time_field(known: dict[str, Reading]) -> str:
    return next(name for name in _TIMES if name in known)


def _sides(reading: Reading) -> dict[Side, int]:
    """The entry type of each side of a book."""
    return {Side.BUY: enum_number(reading, "BID"), Side.SELL: enum_number(reading, "OFFER")}


class OrderEncoder:
    """Writes book messages of one version.

    ``positions`` tells whether the version manages books by position: each order then carries
    its place (versions below 15), and a place must be given.
    """

    def __init__(self, schema: SchemaCodec, implied: int, recovery: int) -> None:
        self._implied = implied
        self._recovery = recovery
        order = _codec(schema, "Order_MBO_50")
        known = known_fields(order)
        self.positions = _is_placed(known)
        sides = _sides(known[_TYPE])
        self._added = _order_writers(order, "NEW", sides)
        self._changed = _order_writers(order, "CHANGE", sides, prev_size="mDEntryPrevSize")
        delete = _codec(schema, "DeleteOrder_MBO_51")
        self._deleted = _delete_writers(delete, sides, sized=True)
        # While the size was optional it was left out of deletions that a match brought about.
        always = known_fields(delete)["mDEntrySize"].required
        self._executed = _delete_writers(delete, sides, sized=always)
        mass = _codec(schema, "MassDeleteOrders_MBO_52")
        self._thru = _mass_writer(mass, "DELETE_THRU", sides)
        self._from = _mass_writer(mass, "DELETE_FROM", sides)

    def added(self, item: OrderAdded, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """Order_MBO with action NEW."""
        if item.implied:
            flags |= self._implied
        if item.recovery:
            flags |= self._recovery
        write = self._added[item.side == _BUY]
        if position is None:
            return write(item, flags, rpt_seq)
        return write(item, flags, rpt_seq, position)

    def changed(self, item: OrderChanged, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """Order_MBO with action CHANGE."""
        if item.implied:
            flags |= self._implied
        write = self._changed[item.side == _BUY]
        if position is None:
            return write(item, flags, rpt_seq)
        return write(item, flags, rpt_seq, position)

    def deleted(self, item: OrderDeleted, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """DeleteOrder_MBO."""
        if item.implied:
            flags |= self._implied
        write = (self._executed if item.matched else self._deleted)[item.side == _BUY]
        if position is None:
            return write(item, flags, rpt_seq)
        return write(item, flags, rpt_seq, position)

    def side_deleted(self, item: MassDeleteOrders, flags: int, rpt_seq: int) -> bytes:
        """MassDeleteOrders with action DELETE_THRU: the whole side."""
        return self._thru(item.security_id, item.side, flags, rpt_seq, 1, item.transact_time_ns)

    def top_deleted(self, last: OrderDeleted, flags: int, rpt_seq: int, count: int) -> bytes:
        """MassDeleteOrders with action DELETE_FROM: the first ``count`` orders of the side."""
        return self._from(last.security_id, last.side, flags, rpt_seq, count, last.transact_time_ns)


_Writers = tuple[Callable[..., bytes], Callable[..., bytes]]
"""What writes an order of the offers, and one of the bids: the order, flags, ``rptSeq`` and,
where the version has places, its place.
"""


def _is_placed(known: dict[str, Reading]) -> bool:
    return _POSITION in known and known[_POSITION].required


def _order_writers(
    codec: MessageCodec, action: str, sides: dict[Side, int], **more: str
) -> _Writers:
    known = known_fields(codec)
    fields = {**_ORDER_FIELDS, "transact_time_ns": _time_field(known), **more}
    taken = {field: Taken(name) for name, field in fields.items() if field in known}
    number = enum_number(known[_ACTION], action)
    return _by_side(codec, taken, sides, {_ACTION: number})


def _delete_writers(codec: MessageCodec, sides: dict[Side, int], *, sized: bool) -> _Writers:
    known = known_fields(codec)
    taken = {
        "securityID": Taken("security_id"),
        "secondaryOrderID": Taken("secondary_order_id"),
        _time_field(known): Taken("transact_time_ns"),
    }
    if sized:
        taken["mDEntrySize"] = Taken("size")
    if "mDEntryPx" in known:
        taken["mDEntryPx"] = Taken("price")
    return _by_side(codec, taken, sides, {})


def _by_side(
    codec: MessageCodec, taken: dict[str, Taken], sides: dict[Side, int], fixed: dict[str, int]
) -> _Writers:
    names = (FLAGS, RPT_SEQ, _POSITION) if _is_placed(known_fields(codec)) else (FLAGS, RPT_SEQ)
    offer, bid = (
        codec.packer(*names, taken=taken, fixed={**fixed, _TYPE: sides[side]})
        for side in (Side.SELL, Side.BUY)
    )
    return offer, bid


def _mass_writer(
    codec: MessageCodec, action: str, sides: dict[Side, int]
) -> Callable[[int, Side, int, int, int, int], bytes]:
    known = known_fields(codec)
    number = enum_number(known[_ACTION], action)
    names = ["securityID", _ACTION, _TYPE, FLAGS, RPT_SEQ, _time_field(known)]
    placed = _is_placed(known)
    if placed:
        names.append(_POSITION)
    pack = codec.packer(*names)

    def write(
        security_id: int, side: Side, flags: int, rpt_seq: int, position: int, time_ns: int
    ) -> bytes:
        values = (security_id, number, sides[side], flags, rpt_seq, time_ns)
        return pack(*values, position) if placed else pack(*values)

    return write


class SnapshotOrderEncoder:
    """Writes the orders of a snapshot, some to a message."""

    def __init__(self, schema: SchemaCodec, implied: int) -> None:
        codec = _codec(schema, "SnapshotFullRefresh_Orders_MBO_71")
        (group,) = codec.message.groups
        entry = {reading.name: reading for reading in readings(group)}
        self._start = codec.packer("securityID")
        sides = _sides(entry[_TYPE])
        taken = {field: Taken(name) for name, field in _ORDER_FIELDS.items() if field in entry}
        if FLAGS in entry:
            taken[FLAGS] = Taken("implied", lambda told: implied if told else 0)
        self.placed = _is_placed(entry)
        """Do orders carry their places?"""
        names = [_POSITION] if self.placed else []
        (self._dimension, offer), (_, bid) = (
            codec.group_packers(group.name, *names, taken=taken, fixed={_TYPE: sides[side]})
            for side in (Side.SELL, Side.BUY)
        )
        self.entries: dict[Side, Callable[..., bytes]] = {Side.SELL: offer, Side.BUY: bid}
        """What writes an order of a side, with its place where the version has places."""
        self.size = group.block_length
        """How many bytes an order takes."""

    def message(self, security_id: int, entries: bytes) -> bytes:
        """One message of orders, each as `entries` write it, one behind the other."""
        return self._start(security_id) + self._dimension(len(entries) // self.size) + entries
