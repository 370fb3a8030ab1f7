"""Encoding of book messages: orders, deletions, mass deletions, and the orders of snapshots."""

from __future__ import annotations

from collections.abc import Callable

from pregao.errors import SchemaError
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    DeleteOrderMbo,
    MassDeleteOrders,
    NewOrderMbo,
)
from pregao.exchange.publisher.encoding.fields import (
    FLAGS,
    RPT_SEQ,
    known_fields,
    template,
)
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.packer import FieldSource
from pregao.sbe.value_specs import ValueSpec, readings
from pregao.schemas.bundle import bundled
from pregao.umdf.templates import BID, OFFER, UpdateAction

OrderItem = NewOrderMbo | ChangeOrderMbo
"""The last published state of an order."""

_BUY = OrderSide.BUY
_SIDES = {OrderSide.BUY: BID, OrderSide.SELL: OFFER}
"""Entry type of each book side."""
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
        raise SchemaError(f"schema version {schema.schema.version} has no message {name}")
    return codec


def has_positions(version: int | str) -> bool:
    """Whether orders carry their position in this schema version, as in those below 15."""
    order = _codec(SchemaCodec(bundled("umdf", version)), "Order_MBO_50")
    return _is_placed(known_fields(order))


def _time_field(known: dict[str, ValueSpec]) -> str:
    return next(name for name in _TIMES if name in known)


class OrderEncoder:
    """Writes book messages of one version.

    ``positions`` states whether the version manages books by position (below 15): each order then
    carries its position, and callers must pass it.
    """

    def __init__(self, schema: SchemaCodec, implied: int, recovery: int) -> None:
        self._implied = implied
        self._recovery = recovery
        order = _codec(schema, "Order_MBO_50")
        known = known_fields(order)
        self.positions = _is_placed(known)
        self._added = _order_writers(order, UpdateAction.NEW)
        self._changed = _order_writers(order, UpdateAction.CHANGE, prev_size="mDEntryPrevSize")
        delete = _codec(schema, "DeleteOrder_MBO_51")
        self._deleted = _delete_writers(delete, sized=True)
        # Versions with an optional size omit it in deletions caused by a match.
        always = known_fields(delete)["mDEntrySize"].required
        self._executed = _delete_writers(delete, sized=always)
        mass = _codec(schema, "MassDeleteOrders_MBO_52")
        self._thru = _mass_writer(mass, UpdateAction.DELETE_THRU)
        self._from = _mass_writer(mass, UpdateAction.DELETE_FROM)

    def added(self, item: NewOrderMbo, flags: int, rpt_seq: int, position: int | None) -> bytes:
        """Encode an Order_MBO with action NEW."""
        if item.implied:
            flags |= self._implied
        if item.recovery:
            flags |= self._recovery
        write = self._added[item.side == _BUY]
        if position is None:
            return write(item, flags, rpt_seq)
        return write(item, flags, rpt_seq, position)

    def changed(
        self, item: ChangeOrderMbo, flags: int, rpt_seq: int, position: int | None
    ) -> bytes:
        """Encode an Order_MBO with action CHANGE."""
        if item.implied:
            flags |= self._implied
        write = self._changed[item.side == _BUY]
        if position is None:
            return write(item, flags, rpt_seq)
        return write(item, flags, rpt_seq, position)

    def deleted(
        self, item: DeleteOrderMbo, flags: int, rpt_seq: int, position: int | None
    ) -> bytes:
        """Encode a DeleteOrder_MBO."""
        if item.implied:
            flags |= self._implied
        write = (self._executed if item.matched else self._deleted)[item.side == _BUY]
        if position is None:
            return write(item, flags, rpt_seq)
        return write(item, flags, rpt_seq, position)

    def side_deleted(self, item: MassDeleteOrders, flags: int, rpt_seq: int) -> bytes:
        """Encode a MassDeleteOrders with action DELETE_THRU: the complete side."""
        return self._thru(item.security_id, item.side, flags, rpt_seq, 1, item.transact_time_ns)

    def top_deleted(self, last: DeleteOrderMbo, flags: int, rpt_seq: int, count: int) -> bytes:
        """Encode a MassDeleteOrders with DELETE_FROM: the first ``count`` orders of the side."""
        return self._from(last.security_id, last.side, flags, rpt_seq, count, last.transact_time_ns)


_Writers = tuple[Callable[..., bytes], Callable[..., bytes]]
"""Writers of an offer and of a bid. Arguments: the order, flags, ``rptSeq`` and, in versions with
positions, its position.
"""


def _is_placed(known: dict[str, ValueSpec]) -> bool:
    return _POSITION in known and known[_POSITION].required


def _order_writers(codec: MessageCodec, action: UpdateAction, **more: str) -> _Writers:
    known = known_fields(codec)
    fields = {**_ORDER_FIELDS, "transact_time_ns": _time_field(known), **more}
    mapped = {field: FieldSource(name) for name, field in fields.items() if field in known}
    return _by_side(codec, mapped, {_ACTION: action.value})


def _delete_writers(codec: MessageCodec, *, sized: bool) -> _Writers:
    known = known_fields(codec)
    mapped = {
        "securityID": FieldSource("security_id"),
        "secondaryOrderID": FieldSource("secondary_order_id"),
        _time_field(known): FieldSource("transact_time_ns"),
    }
    if sized:
        mapped["mDEntrySize"] = FieldSource("size")
    if "mDEntryPx" in known:
        mapped["mDEntryPx"] = FieldSource("price")
    return _by_side(codec, mapped, {})


def _by_side(
    codec: MessageCodec,
    sources: dict[str, FieldSource],
    fixed: dict[str, int],
) -> _Writers:
    names = (FLAGS, RPT_SEQ, _POSITION) if _is_placed(known_fields(codec)) else (FLAGS, RPT_SEQ)
    offer, bid = (
        codec.packer(*names, sources=sources, fixed={**fixed, _TYPE: _SIDES[side]})
        for side in (OrderSide.SELL, OrderSide.BUY)
    )
    return offer, bid


def _mass_writer(
    codec: MessageCodec, action: UpdateAction
) -> Callable[[int, OrderSide, int, int, int, int], bytes]:
    known = known_fields(codec)
    number = action.value
    names = ["securityID", _ACTION, _TYPE, FLAGS, RPT_SEQ, _time_field(known)]
    placed = _is_placed(known)
    if placed:
        names.append(_POSITION)
    pack = codec.packer(*names)

    def write(
        security_id: int, side: OrderSide, flags: int, rpt_seq: int, position: int, time_ns: int
    ) -> bytes:
        values = (security_id, number, _SIDES[side], flags, rpt_seq, time_ns)
        return pack(*values, position) if placed else pack(*values)

    return write


class SnapshotOrderEncoder:
    """Writes the orders of a snapshot, several per message."""

    def __init__(self, schema: SchemaCodec, implied: int) -> None:
        codec = _codec(schema, "SnapshotFullRefresh_Orders_MBO_71")
        (group,) = codec.message.groups
        entry = {reading.name: reading for reading in readings(group)}
        self._start = codec.packer("securityID")
        mapped = {
            field: FieldSource(name) for name, field in _ORDER_FIELDS.items() if field in entry
        }
        if FLAGS in entry:
            mapped[FLAGS] = FieldSource("implied", lambda is_implied: implied if is_implied else 0)
        self.placed = _is_placed(entry)
        """Whether orders carry their position."""
        names = [_POSITION] if self.placed else []
        (self._dimension, offer), (_, bid) = (
            codec.group_packers(group.name, *names, sources=mapped, fixed={_TYPE: _SIDES[side]})
            for side in (OrderSide.SELL, OrderSide.BUY)
        )
        self.entries: dict[OrderSide, Callable[..., bytes]] = {
            OrderSide.SELL: offer,
            OrderSide.BUY: bid,
        }
        """Writer of an order by side; it takes the position in versions with positions."""
        self.size = group.block_length
        """Bytes per order."""

    def message(self, security_id: int, entries: bytes) -> bytes:
        """Return one message of orders; ``entries`` are the encoded orders, concatenated."""
        return self._start(security_id) + self._dimension(len(entries) // self.size) + entries
