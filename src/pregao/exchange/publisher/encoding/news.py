"""A piece of news as News messages: long texts are cut into parts that fit a packet each."""

from __future__ import annotations

from collections.abc import Iterator

from pregao.errors import EncodeError, SchemaError
from pregao.exchange.engine.events import News
from pregao.exchange.publisher.encoding.fields import FLAGS, template
from pregao.exchange.publisher.packetiser import ROOM
from pregao.sbe.codec import SchemaCodec

_MOST_PARTS = 0xFFFF
_LEAST_TEXT = 200
"""How many bytes of text a part must at least have room for."""


class NewsEncoder:
    """Writes news of one version."""

    def __init__(self, schema: SchemaCodec) -> None:
        codec = template(schema, "News_5")
        if codec is None:
            raise SchemaError(f"version {schema.schema.version} of the feed has no news")
        self._codec = codec

    def messages(self, news: News, flags: int, last_flags: int) -> list[bytes]:
        """The parts of a piece of news; the last one has flags of its own.

        Headline and address are told in every part, so that each can be shown for itself.
        """
        text = news.text.encode()
        values = {
            "securityID": news.security_id,
            "newsSource": int(news.source),
            "languageCode": news.language,
            "partCount": 1,
            "partNumber": 1,
            "newsID": news.news_id,
            "origTime": news.orig_time_ns,
            "totalTextLength": len(text),
            "headline": news.headline,
            "text": "",
            "uRLLink": news.url,
            FLAGS: flags,
        }
        room = ROOM - len(self._codec.encode(values))
        if room < _LEAST_TEXT:
            raise EncodeError(
                f"the headline and the address of a piece of news take {_LEAST_TEXT - room} bytes "
                "too many: shorten them"
            )
        parts = list(cut_text(text, room))
        if len(parts) > _MOST_PARTS:
            raise EncodeError(
                f"a piece of news of {len(text)} bytes takes {len(parts)} parts, "
                f"{_MOST_PARTS} at most"
            )
        messages = []
        for number, part in enumerate(parts, 1):
            last = number == len(parts)
            messages.append(
                self._codec.encode(
                    {
                        **values,
                        "partCount": len(parts),
                        "partNumber": number,
                        "text": part,
                        FLAGS: last_flags if last else flags,
                    }
                )
            )
        return messages


def cut_text(text: bytes, size: int) -> Iterator[bytes]:
    """UTF-8 text in parts of at most ``size`` bytes (4 or more), no character torn apart."""
    start = 0
    while len(text) - start > size:
        end = start + size
        while text[end] & 0xC0 == 0x80:  # a byte within a character
            end -= 1
        yield text[start:end]
        start = end
    yield text[start:]
