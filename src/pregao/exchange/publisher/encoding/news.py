"""News messages; long texts are split into parts that each fit in a packet."""

from __future__ import annotations

from collections.abc import Iterator

from pregao.errors import EncodeError, SchemaError
from pregao.exchange.engine.model.events import News
from pregao.exchange.publisher.encoding.fields import FLAGS, template
from pregao.exchange.publisher.packet_writer import MAX_MESSAGE
from pregao.sbe.codec import SchemaCodec

_MAX_PARTS = 0xFFFF
_MIN_TEXT = 200
"""Minimum bytes of text per part."""


class NewsEncoder:
    """Writes News messages of one version."""

    def __init__(self, schema: SchemaCodec) -> None:
        codec = template(schema, "News_5")
        if codec is None:
            raise SchemaError(f"schema version {schema.schema.version} has no message News_5")
        self._codec = codec

    def messages(self, news: News, flags: int, last_flags: int) -> list[bytes]:
        """Return the parts of a piece of news; the last one has ``last_flags``.

        Every part has headline and URL, so that each can be displayed alone.
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
        text_size = MAX_MESSAGE - len(self._codec.encode(values))
        if text_size < _MIN_TEXT:
            raise EncodeError(
                f"headline and URL of a news item are {_MIN_TEXT - text_size} bytes too long: "
                "shorten them"
            )
        parts = list(cut_text(text, text_size))
        if len(parts) > _MAX_PARTS:
            raise EncodeError(
                f"news text of {len(text)} bytes needs {len(parts)} parts, at most {_MAX_PARTS} "
                "are allowed: shorten it"
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
    """Split UTF-8 text at character boundaries into parts of at most ``size`` bytes (4 or more)."""
    start = 0
    while len(text) - start > size:
        end = start + size
        while text[end] & 0xC0 == 0x80:  # a byte within a character
            end -= 1
        yield text[start:end]
        start = end
    yield text[start:]
