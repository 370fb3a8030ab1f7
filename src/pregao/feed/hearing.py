"""Lets a channel hear of what the kernel of the pump has told: books that changed, and messages
that it has read and kept as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pregao.feed import _pump_words as w
from pregao.feed import channel_events as told
from pregao.feed.channel_teller import Teller
from pregao.feed.pump import Row
from pregao.feed.quick_reading import (
    REMOVES,
    REPLACES,
    Decode,
    ReadBody,
    ReadStatistic,
    ReadTrade,
    Unread,
    body_reader,
    statistic_reader,
    trade_reader,
)
from pregao.umdf.layout import FRAMING_SIZE, MESSAGE_HEADER, SMALLEST_MESSAGE
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import Place

_MOST_READERS: Final = 1024


class _Reader(NamedTuple):
    """What reads messages of a header."""

    template_id: int
    block_length: int
    version: int
    decode: Decode
    read_body: ReadBody
    read_trade: ReadTrade | None
    read_statistic: ReadStatistic | None


class Hearing:
    """Decodes messages where they lie, and tells of them."""

    def __init__(self, decoder: PacketDecoder, teller: Teller) -> None:
        self._decoder = decoder
        self._teller = teller
        self._readers: dict[int, _Reader] = {}
        """By the messages' headers."""
        self._last: dict[int, tuple[int, int, _Reader, Place]] = {}
        """The trades that made last prices, by their instruments: where each is, and was told."""

    def hear(
        self, version: int, rows: Iterable[Row], stored: memoryview, securities: Sequence[int]
    ) -> None:
        """Tell what these rows tell of a sequence version, in order."""
        teller, readers, last = self._teller, self._readers, self._last
        place = Place(version, -1)  # of no packet yet
        for kind, item, event, number, sending_ns, received_ns, size, header in rows:
            if number != place.sequence_number:  # of another packet
                place = Place(version, number)
                teller.at(place, sending_ns, received_ns)
            if kind == w.BOOK:
                teller.tell(told.BookChanged, securities[item], event)
                continue
            reader = readers.get(header) or self._know(header, stored, item)
            template_id, block_length, of_version, decode, read_body, read_trade, read = reader
            at, end = item + SMALLEST_MESSAGE, item + size
            if read_trade is not None:
                trade = read_trade(stored, at, end)
                if teller.trade(event, template_id, *trade):
                    last[trade[0]] = (at, end, reader, place)
                continue
            if read is not None:
                security_id, does = read(stored, at, end)
                if does == REPLACES:
                    values = Unread(bytes(stored[at:end]), read_body)
                    teller.replaced(security_id, template_id, values, place)
                    continue
                if does == REMOVES:
                    teller.removed(security_id, template_id)
                    continue
            if last:  # what comes now may take a last price away
                self._keep_last(stored)
            decoded = decode(stored, at, block_length, of_version, end)
            teller.hear(place, event, template_id, decoded.values)
        if last:
            self._keep_last(stored)

    def _keep_last(self, stored: memoryview) -> None:
        """Let the market's state know the last prices: of many trades in a row only the last."""
        keep = self._teller.state.keep_last
        for security_id, (at, end, reader, place) in self._last.items():
            values = Unread(bytes(stored[at:end]), reader.read_body)
            keep(security_id, reader.template_id, values, place)
        self._last.clear()

    def _know(self, header: int, stored: memoryview, item: int) -> _Reader:
        block_length, template_id, schema_id, version = MESSAGE_HEADER.unpack_from(
            stored, item + FRAMING_SIZE
        )
        codec = self._decoder.codec(schema_id, version).codec(template_id)
        assert codec is not None  # the kernel reads no others
        if len(self._readers) >= _MOST_READERS:  # lengths and versions come from the wire
            self._readers.clear()
        decode = codec.decoder(version)
        found = _Reader(
            template_id, block_length, version, decode,
            body_reader(decode, block_length, version),
            trade_reader(codec, decode, block_length, version),
            statistic_reader(codec, block_length),
        )  # fmt: skip
        self._readers[header] = found
        return found
