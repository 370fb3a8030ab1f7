"""Trades and statistics read without a dictionary: an uncrossing brings hundreds of packets full of
them.

Of a trade the fields are read that its event has; what a number of such a message means is asked
once of the decoder of whole messages. Of a statistic only that is read which says what it does; its
fields are decoded when somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pregao.errors import DecodeError
from pregao.feed.market_state import REPLACING
from pregao.feed.meaning import PRICE_SCALE
from pregao.sbe import Decoded, MessageCodec, readings
from pregao.umdf import templates

Decode = Callable[[Any, int, int, int, int], Decoded]
"""Decodes the body of a message: of a buffer, at a place, of a length and version, up to an end."""
ReadTrade = Callable[[Any, int, int], tuple[Any, ...]]
"""Reads the body of a trade, of a buffer, from a place up to an end; gives what `Teller.trade`
takes."""
ReadBody = Callable[[bytes], Mapping[str, Any]]
"""Decodes the body of a message of a length and version."""
ReadStatistic = Callable[[Any, int, int], tuple[int, int]]
"""Reads whose a statistic is and what it does, of a buffer, from a place up to an end."""
REPLACES, REMOVES, DOES_MORE = range(3)
"""What a statistic does: it takes the place of its like, it takes it away, or more than that."""

_TIMES: Final = ("transactTime", "mDEntryTimestamp")
_FIELDS: Final = (
    "securityID", "tradeID", "tradeDate", "mDEntryPx", "mDEntrySize", "mDEntryBuyer",
    "mDEntrySeller", "tradeCondition", "trdSubType",
)  # fmt: skip
_MOST_KNOWN: Final = 1024
_ACTION: Final = "mDUpdateAction"


class Unread(Mapping[str, Any]):
    """The fields of a message that are decoded when somebody looks at them."""

    __slots__ = ("_body", "_found", "_read")

    def __init__(self, body: bytes, read: ReadBody) -> None:
        self._body = body
        self._read = read
        self._found: Mapping[str, Any] | None = None

    def _values(self) -> Mapping[str, Any]:
        if self._found is None:
            self._found = self._read(self._body)
        return self._found

    def __getitem__(self, name: str) -> Any:
        return self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __repr__(self) -> str:
        return repr(self._values())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[Mapping[str, Any]]]:
        return dict, (self._values(),)


def body_reader(decode: Decode, block_length: int, version: int) -> ReadBody:
    """What decodes whole bodies of a length and version."""

    def read(body: bytes) -> Mapping[str, Any]:
        return decode(body, 0, block_length, version, len(body)).values

    return read


def _unpacks(unpack: Callable[..., Any], block_length: int) -> bool:
    """Does a block reach the last of the fields that are read?"""
    try:
        unpack(bytes(block_length), 0, block_length, block_length)
    except DecodeError:
        return False
    return True


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
    if not _unpacks(unpack, block_length):
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
        trade_date = days.get(day) or look(
            days, day, "tradeDate", (data, at, block_length, version, end)
        )
        if sub_type is not None:
            name = sub_types.get(sub_type)
            sub_type = name or look(
                sub_types, sub_type, "trdSubType", (data, at, block_length, version, end)
            )
        return (
            security_id, number, trade_date, price, size, buyer, seller, condition, sub_type, when,
        )  # fmt: skip

    return read


def statistic_reader(codec: MessageCodec, block_length: int) -> ReadStatistic | None:
    """What reads statistics of a length; None if it is none, or one that may do more."""
    message = codec.message
    if message.id not in REPLACING:
        return None
    known = {each.name: each for each in readings(message)}
    counted = message.id == templates.EXECUTION_STATISTICS
    if counted and (_ACTION in known or "numberOfTrades" not in known):
        return None
    field = "numberOfTrades" if counted else _ACTION
    if "securityID" not in known or field not in known:
        return None
    unpack = codec.unpacker("securityID", field)
    if not _unpacks(unpack, block_length):
        return None
    enum = known[field].enum
    if counted:
        # Without any trade there is no last price.
        does = {0: DOES_MORE}
    elif enum is None:
        return None
    else:
        does = {each.value: REMOVES for each in enum.members if each.name == "DELETE"}

    def read(data: Any, at: int, end: int) -> tuple[int, int]:
        security_id, number = unpack(data, at, block_length, end)
        return security_id, does.get(number, REPLACES)

    return read
