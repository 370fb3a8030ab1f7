"""The messages of the book: orders, deletions, whole sides, and the orders of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

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
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.values import Reading, readings

OrderItem = OrderAdded | OrderChanged
"""An order as it was last published."""

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
        self.positions = _POSITION in known and known[_POSITION].required
        sides = _sides(known[_TYPE])
        self._added = _order_writer(order, "NEW", sides, ())
        previous = (("prev_size", "mDEntryPrevSize"),) if "mDEntryPrevSize" in known else ()
        self._changed = _order_writer(order, "CHANGE", sides, previous)
        self._deleted = _delete_writer(_codec(schema, "DeleteOrder_MBO_51"), sides)
        mass = _codec(schema, "MassDeleteOrders_MBO_52")
        self._thru = _mass_writer(mass, "DELETE_THRU", sides)
        self._from = _mass_writer(mass, "DELETE_FROM", sides)

    def added(self, item: OrderAdded, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """Order_MBO with action NEW."""
        if item.implied:
            flags |= self._implied
        if item.recovery:
            flags |= self._recovery
        return self._added(item, flags, rpt_seq, position)

    def changed(self, item: OrderChanged, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """Order_MBO with action CHANGE."""
        if item.implied:
            flags |= self._implied
        return self._changed(item, flags, rpt_seq, position)

    def deleted(self, item: OrderDeleted, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """DeleteOrder_MBO."""
        if item.implied:
            flags |= self._implied
        return self._deleted(item, flags, rpt_seq, position)

    def side_deleted(self, item: MassDeleteOrders, flags: int, rpt_seq: int) -> bytes:
        """MassDeleteOrders with action DELETE_THRU: the whole side."""
        return self._thru(item.security_id, item.side, flags, rpt_seq, 1, item.transact_time_ns)

    def top_deleted(self, last: OrderDeleted, flags: int, rpt_seq: int, count: int) -> bytes:
        """MassDeleteOrders with action DELETE_FROM: the first ``count`` orders of the side."""
        return self._from(last.security_id, last.side, flags, rpt_seq, count, last.transact_time_ns)


_OrderWriter = Callable[[Any, int, int, int | None], bytes]


def _order_writer(
    codec: MessageCodec,
    action: str,
    sides: dict[Side, int],
    more: Sequence[tuple[str, str]],
) -> _OrderWriter:
    known = known_fields(codec)
    number = enum_number(known[_ACTION], action)
    fields = {**_ORDER_FIELDS, "transact_time_ns": _time_field(known), **dict(more)}
    get = attrgetter(*fields)
    names = (FLAGS, RPT_SEQ, _ACTION, _TYPE, *fields.values())
    if _POSITION in known and known[_POSITION].required:
        placed = codec.packer(_POSITION, *names)
        return lambda item, flags, rpt_seq, position: placed(
            position, flags, rpt_seq, number, sides[item.side], *get(item)
        )
    pack = codec.packer(*names)
    return lambda item, flags, rpt_seq, _position: pack(
        flags, rpt_seq, number, sides[item.side], *get(item)
    )


def _delete_writer(codec: MessageCodec, sides: dict[Side, int]) -> _OrderWriter:
    known = known_fields(codec)
    fields = {
        "security_id": "securityID",
        "secondary_order_id": "secondaryOrderID",
        "transact_time_ns": _time_field(known),
    }
    if "mDEntryPx" in known:
        fields["price"] = "mDEntryPx"
    get = attrgetter(*fields)
    names = (FLAGS, RPT_SEQ, _TYPE, "mDEntrySize", *fields.values())
    # While the size was optional it was left out of deletions that a match brought about.
    always_sized = known["mDEntrySize"].required
    if _POSITION in known and known[_POSITION].required:
        placed = codec.packer(_POSITION, *names)
        return lambda item, flags, rpt_seq, position: placed(
            position,
            flags,
            rpt_seq,
            sides[item.side],
            item.size if always_sized or not item.matched else None,
            *get(item),
        )
    pack = codec.packer(*names)
    return lambda item, flags, rpt_seq, _position: pack(
        flags,
        rpt_seq,
        sides[item.side],
        item.size if always_sized or not item.matched else None,
        *get(item),
    )


def _mass_writer(
    codec: MessageCodec, action: str, sides: dict[Side, int]
) -> Callable[[int, Side, int, int, int, int], bytes]:
    known = known_fields(codec)
    number = enum_number(known[_ACTION], action)
    names = ["securityID", _ACTION, _TYPE, FLAGS, RPT_SEQ, _time_field(known)]
    placed = _POSITION in known and known[_POSITION].required
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
        self._sides = _sides(entry[_TYPE])
        self._implied = implied if FLAGS in entry else 0
        fields = {name: field for name, field in _ORDER_FIELDS.items() if field in entry}
        self._get = attrgetter(*fields)
        names = [_TYPE, *fields.values()]
        self._flagged = FLAGS in entry
        self.placed = _POSITION in entry and entry[_POSITION].required
        """Do orders carry their places?"""
        if self._flagged:
            names.append(FLAGS)
        if self.placed:
            names.append(_POSITION)
        self._dimension, self._pack = codec.group_packers(group.name, *names)

    def message(self, security_id: int, entries: Sequence[bytes]) -> bytes:
        """One message of orders, each as `entry` gives it."""
        return b"".join((self._start(security_id), self._dimension(len(entries)), *entries))

    def entry(self, order: OrderItem, position: int = 0) -> bytes:
        """An order as a snapshot tells it, with its place where the version has places."""
        values = [self._sides[order.side], *self._get(order)]
        if self._flagged:
            values.append(self._implied if order.implied else 0)
        if self.placed:
            values.append(position)
        return self._pack(*values)
