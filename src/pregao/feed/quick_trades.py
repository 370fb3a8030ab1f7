"""Trades read without a dictionary: an uncrossing brings hundreds of packets that are full of them.

What a number of such a message means is asked once of the decoder of whole messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pregao.errors import DecodeError
from pregao.feed.meaning import PRICE_SCALE
from pregao.sbe import Decoded, MessageCodec, readings
from pregao.umdf import templates

Decode = Callable[[Any, int, int, int, int], Decoded]
"""Decodes the body of a message: of a buffer, at a place, of a length and version, up to an end."""
ReadTrade = Callable[[Any, int, int], tuple[Any, ...]]
"""Reads the body of a trade, of a buffer, from a place up to an end; gives what `Teller.trade`
takes."""

_TIMES: Final = ("transactTime", "mDEntryTimestamp")
_FIELDS: Final = (
    "securityID", "tradeID", "tradeDate", "mDEntryPx", "mDEntrySize", "mDEntryBuyer",
    "mDEntrySeller", "tradeCondition", "trdSubType",
)  # fmt: skip
_MOST_KNOWN: Final = 1024


class Unread(Mapping[str, Any]):
    """The fields of a message that are decoded when somebody looks at them."""

    __slots__ = ("_body", "_decode", "_found", "_length", "_version")

    def __init__(self, body: bytes, decode: Decode, length: int, version: int) -> None:
        self._body, self._decode = body, decode
        self._length, self._version = length, version
        self._found: Mapping[str, Any] | None = None

    def _values(self) -> Mapping[str, Any]:
        if self._found is None:
            body = self._body
            self._found = self._decode(body, 0, self._length, self._version, len(body)).values
        return self._found

    def __getitem__(self, name: str) -> Any:
        return self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return repr(self._values())


def trade_reader(
    codec: MessageCodec, decode: Decode, block_length: int, version: int
) -> ReadTrade | None:
    """What reads trades of a length and version; None if it is no trade, or not as usual."""
    if codec.message.id != templates.TRADE:
        return None
    known = {each.name: each for each in readings(codec.message)}
    times = [name for name in _TIMES if name in known]
    if len(times) != 1 or any(name not in known for name in _FIELDS):
        return None
    if known["mDEntryPx"].scale != PRICE_SCALE:
        return None
    unpack = codec.unpacker(*_FIELDS, times[0])
    try:
        unpack(bytes(block_length), 0, block_length, block_length)
    except DecodeError:  # of a version whose block ends before the last of them
        return None
    days: dict[int, Any] = {}
    sub_types: dict[int | None, Any] = {}

    def look(known: dict[Any, Any], number: int | None, field: str, message: Any) -> Any:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[number] = found = decode(*message).values[field]
        return found

    def read(data: Any, at: int, end: int) -> tuple[Any, ...]:
        found = unpack(data, at, block_length, end)
        security_id, number, day, price, size, buyer, seller, condition, sub_type, when = found
        message = (data, at, block_length, version, end)
        trade_date = days.get(day) or look(days, day, "tradeDate", message)
        if sub_type is not None:
            name = sub_types.get(sub_type)
            sub_type = look(sub_types, sub_type, "trdSubType", message) if name is None else name
        return (
            security_id, number, trade_date, price, size, buyer, seller, condition, sub_type, when,
        )  # fmt: skip

    return read
