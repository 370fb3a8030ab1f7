"""Emits events from the output of the fast path: changed books, and messages kept as bytes.

An uncrossing causes hundreds of packets full of trades and statistics. They have readers that build
no dictionary. Of a trade only the fields of its event are read; the meaning of a coded value is
looked up once, with the decoder of complete messages. Of a statistic only its instrument and effect
are read; its fields are decoded when a caller accesses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pregao import events as channel_events
from pregao.errors import DecodeError
from pregao.feed.channel.event_publisher import EventEmitter
from pregao.feed.channel.market_state import REPLACING
from pregao.feed.fastpath import _layout as w
from pregao.feed.fastpath.driver import Row
from pregao.sbe.codec import MessageCodec, SbeMessage
from pregao.sbe.value_specs import readings
from pregao.umdf import templates
from pregao.umdf.layout import FRAMING_SIZE, MESSAGE_HEADER, MIN_MESSAGE_SIZE
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import PacketKey
from pregao.units import PRICE_DECIMALS

SbeDecode = Callable[[Any, int, int, int, int], SbeMessage]
"""Decodes the body of a message: buffer, offset, block length, version and end."""
ReadTrade = Callable[[Any, int, int], tuple[Any, ...]]
"""Reads a trade's body between two offsets of a buffer, as arguments of `EventEmitter.trade`."""
ReadBody = Callable[[bytes], Mapping[str, Any]]
"""Decodes message bodies of one block length and version."""
ReadStatistic = Callable[[Any, int, int], tuple[int, int]]
"""Reads the instrument and the effect of a statistic in a buffer, from an offset to an end."""
REPLACES, REMOVES, DOES_MORE = range(3)
"""Effect of a statistic: it replaces the one before, removes it, or does more."""

_TIME_FIELDS: Final = ("transactTime", "mDEntryTimestamp")
_TRADE_FIELDS: Final = (
    "securityID", "tradeID", "tradeDate", "mDEntryPx", "mDEntrySize", "mDEntryBuyer",
    "mDEntrySeller", "tradeCondition", "trdSubType",
)  # fmt: skip
_MAX_CACHED: Final = 1024
_ACTION_FIELD: Final = "mDUpdateAction"

_MAX_READERS: Final = 1024


# --- Readers of single messages ---


class LazyFields(Mapping[str, Any]):
    """Fields of a message, decoded on first access."""

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


def body_reader(decode: SbeDecode, block_length: int, version: int) -> ReadBody:
    """Return a reader of complete bodies of one block length and version."""

    def read(body: bytes) -> Mapping[str, Any]:
        return decode(body, 0, block_length, version, len(body)).values

    return read


def _unpacks(unpack: Callable[..., Any], block_length: int) -> bool:
    """Whether a block is long enough for all fields that are read."""
    try:
        unpack(bytes(block_length), 0, block_length, block_length)
    except DecodeError:
        return False
    return True


def trade_reader(
    codec: MessageCodec, decode: SbeDecode, block_length: int, version: int
) -> ReadTrade | None:
    """Return a reader of trades of one block length and version.

    None if the message is not a trade, or has unusual fields.
    """
    if codec.message.id != templates.TRADE:
        return None
    known = {each.name: each for each in readings(codec.message)}
    times = [name for name in _TIME_FIELDS if name in known]
    if len(times) != 1 or any(name not in known for name in _TRADE_FIELDS):
        return None
    if known["mDEntryPx"].scale != PRICE_DECIMALS:
        return None
    unpack = codec.unpacker(*_TRADE_FIELDS, times[0])
    if not _unpacks(unpack, block_length):
        return None
    days: dict[int, Any] = {}
    sub_types: dict[int | None, Any] = {}

    def look(known: dict[Any, Any], number: int | None, field: str, message: Any) -> Any:
        if len(known) >= _MAX_CACHED:
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
    """Return a reader of statistics of one block length.

    None if the message is not a statistic, or has an effect that the reader does not know.
    """
    message = codec.message
    if message.id not in REPLACING:
        return None
    known = {each.name: each for each in readings(message)}
    counted = message.id == templates.EXECUTION_STATISTICS
    if counted and (_ACTION_FIELD in known or "numberOfTrades" not in known):
        return None
    field = "numberOfTrades" if counted else _ACTION_FIELD
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
        does = {templates.UpdateAction.DELETE.value: REMOVES}

    def read(data: Any, at: int, end: int) -> tuple[int, int]:
        security_id, number = unpack(data, at, block_length, end)
        return security_id, does.get(number, REPLACES)

    return read


# --- Events ---


class _Reader(NamedTuple):
    """Readers of the messages with one header."""

    template_id: int
    block_length: int
    version: int
    decode: SbeDecode
    read_body: ReadBody
    read_trade: ReadTrade | None
    read_statistic: ReadStatistic | None


class FastPathEventDecoder:
    """Decodes messages in place and emits their events."""

    def __init__(self, decoder: PacketDecoder, emitter: EventEmitter) -> None:
        self._decoder = decoder
        self._emitter = emitter
        self._readers: dict[int, _Reader] = {}
        """By message header."""
        self._last: dict[int, tuple[int, int, _Reader, PacketKey]] = {}
        """Trades that set last prices, by instrument: body and end, reader, and packet key."""

    def on_rows(
        self, version: int, rows: Iterable[Row], stored: memoryview, securities: Sequence[int]
    ) -> None:
        """Emit the events of rows of one sequence version, in order."""
        emitter, readers, last = self._emitter, self._readers, self._last
        key = PacketKey(version, -1)  # before the first packet
        for kind, item, event, number, sending_ns, received_ns, size, header in rows:
            if number != key.sequence_number:  # a new packet
                key = PacketKey(version, number)
                emitter.set_packet(key, sending_ns, received_ns)
            if kind == w.BOOK:
                emitter.emit(channel_events.BookChanged, securities[item], event)
                continue
            reader = readers.get(header) or self._add_reader(header, stored, item)
            template_id, block_length, of_version, decode, read_body, read_trade, read = reader
            body, end = item + MIN_MESSAGE_SIZE, item + size
            if read_trade is not None:
                trade = read_trade(stored, body, end)
                if emitter.trade(event, template_id, *trade):
                    last[trade[0]] = (body, end, reader, key)
                continue
            if read is not None:
                security_id, does = read(stored, body, end)
                if does == REPLACES:
                    values = LazyFields(bytes(stored[body:end]), read_body)
                    emitter.replaced(security_id, template_id, values, key)
                    continue
                if does == REMOVES:
                    emitter.removed(security_id, template_id)
                    continue
            if last:  # the next message may remove a last price
                self._keep_last(stored)
            decoded = decode(stored, body, block_length, of_version, end)
            emitter.emit_message(key, event, template_id, decoded.values)
        if last:
            self._keep_last(stored)

    def _keep_last(self, stored: memoryview) -> None:
        """Store last prices in the market state: of many trades in a row, only the last one."""
        keep = self._emitter.state.keep_last
        for security_id, (body, end, reader, key) in self._last.items():
            values = LazyFields(bytes(stored[body:end]), reader.read_body)
            keep(security_id, reader.template_id, values, key)
        self._last.clear()

    def _add_reader(self, header: int, stored: memoryview, item: int) -> _Reader:
        block_length, template_id, schema_id, version = MESSAGE_HEADER.unpack_from(
            stored, item + FRAMING_SIZE
        )
        codec = self._decoder.codec(schema_id, version).codec(template_id)
        assert codec is not None  # the kernel reads no others
        if len(self._readers) >= _MAX_READERS:  # lengths and versions come from the wire
            self._readers.clear()
        decode = codec.decoder(version)
        reader = _Reader(
            template_id, block_length, version, decode,
            body_reader(decode, block_length, version),
            trade_reader(codec, decode, block_length, version),
            statistic_reader(codec, block_length),
        )  # fmt: skip
        self._readers[header] = reader
        return reader
