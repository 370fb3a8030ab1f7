"""Emits events from the output of the fast path: changed books, and messages kept as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pregao.feed import _pump_words as w
from pregao.feed import channel_events as told
from pregao.feed.channel_teller import EventEmitter
from pregao.feed.pump import Row
from pregao.feed.quick_reading import (
    REMOVES,
    REPLACES,
    LazyFields,
    ReadBody,
    ReadStatistic,
    ReadTrade,
    SbeDecode,
    body_reader,
    statistic_reader,
    trade_reader,
)
from pregao.umdf.layout import FRAMING_SIZE, MESSAGE_HEADER, MIN_MESSAGE_SIZE
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import PacketKey

_MAX_READERS: Final = 1024


class _Reader(NamedTuple):
    """Readers of the messages with one header."""

    template_id: int
    block_length: int
    version: int
    decode: SbeDecode
    read_body: ReadBody
    read_trade: ReadTrade | None
    read_statistic: ReadStatistic | None


class PumpEventDecoder:
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
        teller, readers, last = self._emitter, self._readers, self._last
        key = PacketKey(version, -1)  # before the first packet
        for kind, item, event, number, sending_ns, received_ns, size, header in rows:
            if number != key.sequence_number:  # a new packet
                key = PacketKey(version, number)
                teller.set_packet(key, sending_ns, received_ns)
            if kind == w.BOOK:
                teller.emit(told.BookChanged, securities[item], event)
                continue
            reader = readers.get(header) or self._know(header, stored, item)
            template_id, block_length, of_version, decode, read_body, read_trade, read = reader
            body, end = item + MIN_MESSAGE_SIZE, item + size
            if read_trade is not None:
                trade = read_trade(stored, body, end)
                if teller.trade(event, template_id, *trade):
                    last[trade[0]] = (body, end, reader, key)
                continue
            if read is not None:
                security_id, does = read(stored, body, end)
                if does == REPLACES:
                    values = LazyFields(bytes(stored[body:end]), read_body)
                    teller.replaced(security_id, template_id, values, key)
                    continue
                if does == REMOVES:
                    teller.removed(security_id, template_id)
                    continue
            if last:  # the next message may remove a last price
                self._keep_last(stored)
            decoded = decode(stored, body, block_length, of_version, end)
            teller.emit_message(key, event, template_id, decoded.values)
        if last:
            self._keep_last(stored)

    def _keep_last(self, stored: memoryview) -> None:
        """Store last prices in the market state: of many trades in a row, only the last one."""
        keep = self._emitter.state.keep_last
        for security_id, (body, end, reader, key) in self._last.items():
            values = LazyFields(bytes(stored[body:end]), reader.read_body)
            keep(security_id, reader.template_id, values, key)
        self._last.clear()

    def _know(self, header: int, stored: memoryview, item: int) -> _Reader:
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
