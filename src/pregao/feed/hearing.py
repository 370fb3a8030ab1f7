"""Lets a channel hear of messages that the kernel of the pump has read and kept as bytes."""

from __future__ import annotations

from typing import Final

from pregao.feed.channel_teller import Teller
from pregao.feed.quick_trades import Decode, ReadTrade, Unread, trade_reader
from pregao.umdf.layout import FRAMING_SIZE, MESSAGE_HEADER, SMALLEST_MESSAGE
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import Place

_MOST_READERS: Final = 1024


class Hearing:
    """Decodes messages where they lie, and tells of them."""

    def __init__(self, decoder: PacketDecoder, teller: Teller) -> None:
        self._decoder = decoder
        self._teller = teller
        self._readers: dict[tuple[int, ...], tuple[Decode, ReadTrade | None]] = {}
        """What decodes messages, by their headers."""

    def hear(self, place: Place, event: int, data: memoryview, begin: int, end: int) -> None:
        """Tell what a message says that lies there; the teller is at its place already."""
        header = MESSAGE_HEADER.unpack_from(data, begin + FRAMING_SIZE)
        block_length, template_id, _, version = header
        decode, read_trade = self._readers.get(header) or self._know(header)
        at = begin + SMALLEST_MESSAGE
        if read_trade is None:
            found = decode(data, at, block_length, version, end)
            self._teller.hear(place, event, template_id, found.values)
        else:
            values = Unread(bytes(data[at:end]), decode, block_length, version)
            self._teller.trade(event, template_id, values, *read_trade(data, at, end))

    def _know(self, header: tuple[int, ...]) -> tuple[Decode, ReadTrade | None]:
        block_length, template_id, schema_id, version = header
        codec = self._decoder.codec(schema_id, version).codec(template_id)
        assert codec is not None  # the kernel reads no others
        if len(self._readers) >= _MOST_READERS:  # lengths and versions come from the wire
            self._readers.clear()
        decode = codec.decoder(version)
        found = (decode, trade_reader(codec, decode, block_length, version))
        self._readers[header] = found
        return found
