"""Tables of schema versions for the kernel of the fast path: the offsets of the fields it reads.

A template that has a field in a form that the kernel does not read is left to the plain path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.errors import DecodeError
from pregao.feed.book_updates import (
    ACTION,
    ACTION_VALUES,
    ORDER_COLUMNS,
    SIDE,
    SIDE_VALUES,
    UNKNOWN,
)
from pregao.feed.fastpath import _layout as w
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings
from pregao.umdf import templates
from pregao.umdf.event_columns import flags_offset
from pregao.umdf.gaps import NEVER_DISCARDED
from pregao.umdf.packets import PacketDecoder
from pregao.units import PRICE_DECIMALS

_SECURITY, _COUNT, _NEXT = "security_id", "rpt_seq", "next_seq_no"
_ORDERS: Final = (templates.ORDER, templates.DELETE_ORDER)
"""Messages whose books the kernel updates."""
_MAX_TABLES = 64
_WORDS: Final = {
    "order_id": w.ORDER_ID,
    "price": w.PRICE,
    "size": w.SIZE,
    "previous": w.PREVIOUS,
    "firm": w.FIRM,
    "inserted": w.INSERTED,
}
_FIRM_BYTES = _POSITION_BYTES = 4


class FastPathTables:
    """Tables of schema versions, built on first use."""

    def __init__(self, decoder: PacketDecoder, reported: Collection[int]) -> None:
        """Set the templates whose messages cause events, ``reported``."""
        self._decoder = decoder
        self._reported = reported
        self._known: dict[tuple[int, int], Int64Array] = {}

    def table(self, schema_id: int, version: int) -> Int64Array | None:
        """Return the table of a schema ID and version; None if the schema is unknown."""
        found = self._known.get((schema_id, version))
        if found is None:
            try:
                schema = self._decoder.codec(schema_id, version).schema
            except DecodeError:
                return None
            found = _table(schema, version, self._reported)
            if len(self._known) >= _MAX_TABLES:  # both numbers come from the wire
                self._known.clear()
            self._known[schema_id, version] = found
        return found


def _table(schema: Schema, version: int, reported: Collection[int]) -> Int64Array:
    table = np.zeros(w.TABLE_WORDS, np.int64)
    table[w.ACTIONS_AT :] = UNKNOWN
    for template_id in {*reported, *_ORDERS, templates.EXECUTION_SUMMARY}:
        message = schema.by_id.get(template_id)
        if message is None or template_id >= w.TEMPLATES:
            continue
        if template_id in NEVER_DISCARDED:
            offset = template_id * w.TEMPLATE_WORDS
            table[[offset + w.USE, offset + w.BLOCK]] = w.BOOKLESS, message.block_length
            table[offset + w.FLAGS_AT] = flags_offset(template_id, message)
            continue
        if message.groups or message.data:
            continue
        words = _words(message, version, reported=template_id in reported)
        if words is not None:
            offset = template_id * w.TEMPLATE_WORDS
            table[offset : offset + w.TEMPLATE_WORDS] = words
    sequence = schema.by_id.get(templates.SEQUENCE)
    if sequence is not None:
        _heartbeat_words(table, sequence)
    order = schema.by_id.get(templates.ORDER)
    if order is not None:
        fields = {each.column: each for each in readings(order)}
        _fill(table, w.ACTIONS_AT, fields.get(ACTION), ACTION_VALUES)
        _fill(table, w.SIDES_AT, fields.get(SIDE), SIDE_VALUES)
    return table


def _heartbeat_words(table: Int64Array, message: MessageTemplate) -> None:
    """Set the words that locate the next sequence number in a heartbeat."""
    following = next((each for each in readings(message) if each.column == _NEXT), None)
    if following is not None and following.size == 4 and not message.groups and not message.data:
        offset = templates.SEQUENCE * w.TEMPLATE_WORDS
        table[offset + w.USE], table[offset + w.BLOCK] = w.HEARTBEAT, message.block_length
        table[offset + w.COUNT_AT] = following.offset


def _fill(table: Int64Array, at: int, reading: ValueSpec | None, codes: Mapping[int, int]) -> None:
    """Set the codes of an enumeration's values."""
    for member in reading.enum.members if reading is not None and reading.enum is not None else ():
        if member.value in codes and 0 <= member.value <= 0xFF:
            table[at + member.value] = codes[member.value]


def _words(message: MessageTemplate, version: int, *, reported: bool) -> Int64Array | None:
    """Return the words of a template; None if the kernel cannot read it."""
    fields = {each.column: each for each in readings(message)}
    words = np.zeros(w.TEMPLATE_WORDS, np.int64)
    words[w.USE] = w.COUNTED
    words[w.BLOCK] = message.block_length
    words[w.FLAGS_AT] = flags_offset(message.id, message)
    words[[w.SECURITY_AT, w.COUNT_AT, w.ACTION_AT, w.SIDE_AT]] = w.ABSENT
    words[w.REPORTED] = reported
    if any(each.since_version > version for each in fields.values()):
        return None
    security, count = fields.get(_SECURITY), fields.get(_COUNT)
    if security is not None:
        if count is None or (security.size, count.size) != (8, 4):
            return None
        words[w.SECURITY_AT], words[w.COUNT_AT] = security.offset, count.offset
    leaves = [leaf for each in fields.values() for leaf in each.leaves]
    decimals = [leaf for leaf in leaves if leaf.kind is ValueKind.DECIMAL]
    # Codecs also reject days beyond the range of dates, which 16 bits cannot reach.
    days = [leaf for leaf in leaves if leaf.kind is ValueKind.DATE and leaf.size > 2]
    if days or len(decimals) > w.MAX_DECIMALS:
        return None
    if any(leaf.size != 8 for leaf in decimals):
        return None
    words[w.DECIMALS] = len(decimals)
    for index, leaf in enumerate(decimals):
        words[w.DECIMALS + 1 + index] = leaf.offset
        if leaf.null is None or _signed(leaf.null) != NULL:
            words[w.DECIMALS + 1 + index] |= w.NO_LOWEST
    if message.id not in _ORDERS:
        return words
    return words if _order_words(words, message.id, version, fields) else None


def _order_words(
    words: Int64Array, template_id: int, version: int, fields: Mapping[str, ValueSpec]
) -> bool:
    """Set the words of a message about orders; False if the kernel cannot read it."""
    columns = ORDER_COLUMNS[template_id]
    position = fields.get(columns["position"])
    words[w.POSITION_AT] = w.ABSENT
    if position is not None:
        if position.null is None or position.size != _POSITION_BYTES:
            return False  # these books are kept by position
        words[w.POSITION_AT], words[w.NO_POSITION] = position.offset, int(position.null)
    action, side = fields.get(ACTION), fields.get(SIDE)
    price = fields.get(columns["price"])
    if side is None or (action is None) != (template_id == templates.DELETE_ORDER):
        return False
    if price is None or price.scale != PRICE_DECIMALS or words[w.FLAGS_AT] < 0:
        return False
    words[w.USE] = w.ORDERS
    words[w.IMPLIED_BITS] = templates.implied_mask(version)
    words[w.SIDE_AT] = side.offset
    if action is not None:
        words[w.ACTION_AT] = action.offset
    for name, word in _WORDS.items():
        reading = fields.get(columns.get(name, ""))
        words[word] = w.ABSENT
        words[w.NULLS + word - w.ORDER_ID] = NULL
        if reading is None:
            continue  # null in every message
        size = _FIRM_BYTES if name == "firm" else 8
        if reading.size != size or (name == "inserted" and reading.unit != "ns"):
            return False
        words[word] = reading.offset
        words[w.NULLS + word - w.ORDER_ID] = _signed(reading.null)
    return True


def _signed(null: float | None) -> int:
    """Return a null as the kernel reads it, in signed 64 bits; NULL if there is none."""
    if null is None:
        return NULL
    return int(null) - (1 << 64) if null >= 1 << 63 else int(null)
