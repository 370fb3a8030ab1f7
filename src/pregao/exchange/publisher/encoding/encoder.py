"""Encoder of market events as messages of one schema version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from pregao.errors import EncodeError, SchemaError
from pregao.exchange.engine.model.events import News
from pregao.exchange.publisher.encoding.definitions import DefinitionEncoder
from pregao.exchange.publisher.encoding.fields import (
    FLAGS,
    FieldMapping,
    WriteMessage,
    column_writer,
    known_fields,
    template,
)
from pregao.exchange.publisher.encoding.layouts import (
    LAYOUTS,
    SUB_TYPE,
    UPDATE_ACTION,
    MessageLayout,
)
from pregao.exchange.publisher.encoding.orders import OrderEncoder, SnapshotOrderEncoder
from pregao.exchange.publisher.packet_writer import MAX_MESSAGE
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.value_specs import ValueSpec
from pregao.schemas.bundle import bundled
from pregao.umdf.templates import UpdateAction

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


DEFAULT_VERSION = 16


class FeedEncoder:
    """Writes every message of a schema version.

    The schema determines which messages exist and which fields they have.
    """

    def __init__(self, version: int | str = DEFAULT_VERSION) -> None:
        self.schema = SchemaCodec(bundled("umdf", version))
        self.version = self.schema.schema.version
        self.end_of_event = self._flag("EndOfEvent")
        self.recovery = self._flag("RecoveryMsg")
        self.implied = self._flag("Implied")
        self.orders = OrderEncoder(self.schema, self.implied, self.recovery)
        self.snapshot_orders = SnapshotOrderEncoder(self.schema, self.implied)
        self.definitions = DefinitionEncoder(self.schema)
        self.news = NewsEncoder(self.schema)
        self.writers: dict[type, WriteMessage] = {}
        self.unknown: set[type] = set()
        """Events without a message in this version."""
        for kind, layout in LAYOUTS.items():
            codec = template(self.schema, *layout.messages)
            if codec is None:
                self.unknown.add(kind)
            else:
                self.writers[kind] = self._writer(kind, layout, codec)
        self.sequence_reset = self._required("SequenceReset_1").encode({})
        self.sequence: Callable[[int], bytes] = self._required("Sequence_2").packer("nextSeqNo")
        self._header = self._snapshot_header()

    @property
    def positions(self) -> bool:
        """Whether this version manages books by position."""
        return self.orders.positions

    def write(self, item: Any, flags: int = 0, rpt_seq: int | None = None) -> bytes:
        """Encode an event that is not a book event, news or a definition."""
        return self.writers[type(item)](item, flags, rpt_seq)

    def snapshot_header(
        self,
        security_id: int,
        last_number: int,
        reports: int,
        bids: int,
        offers: int,
        statistics: int,
        last_rpt_seq: int | None,
        last_version: int,
    ) -> bytes:
        """Encode the header message of an instrument's snapshot."""
        return self._header(
            security_id, last_number, reports, bids, offers, statistics, last_rpt_seq, last_version
        )

    def _required(self, name: str) -> MessageCodec:
        codec = template(self.schema, name)
        if codec is None:
            raise SchemaError(f"schema version {self.version} has no message {name}")
        return codec

    def _flag(self, name: str) -> int:
        """Return the bit of a flag of matchEventIndicator, 0 if the version does not have it."""
        reading = known_fields(self._required("Trade_53"))[FLAGS]
        choices = () if reading.set is None else reading.set.choices
        return next((1 << choice.bit for choice in choices if choice.name == name), 0)

    def _writer(self, kind: type, layout: MessageLayout, codec: MessageCodec) -> WriteMessage:
        known = known_fields(codec)
        write = column_writer(codec, [self._column(column, known) for column in layout.columns])
        attributes = {field.name for field in fields(kind)}
        extra = {"implied": self.implied, "recovery": self.recovery}
        for attribute, bit in extra.items():
            if attribute in attributes and bit:
                write = _flagging(write, attribute, bit)
        return write

    def _column(self, column: FieldMapping, known: dict[str, ValueSpec]) -> FieldMapping:
        """Return a column with the conversion to the enumeration values of the version."""
        if column.fields == (UPDATE_ACTION,):
            new, delete = UpdateAction.NEW.value, UpdateAction.DELETE.value
            return column._replace(convert=lambda deleted: delete if deleted else new)
        if column.fields == (SUB_TYPE,):
            enum = known[SUB_TYPE].enum
            numbers = set() if enum is None else {member.value for member in enum.members}
            return column._replace(convert=lambda kind: kind if kind in numbers else None)
        return column

    def _snapshot_header(self) -> Callable[..., bytes]:
        codec = self._required("SnapshotFullRefresh_Header_30")
        names = (
            "securityID",
            "lastMsgSeqNumProcessed",
            "totNumReports",
            "totNumBids",
            "totNumOffers",
            "totNumStats",
            "lastRptSeq",
        )
        if "lastSequenceVersion" in known_fields(codec):
            return codec.packer(*names, "lastSequenceVersion")
        pack = codec.packer(*names)
        return lambda *values: pack(*values[: len(names)])


def _flagging(write: WriteMessage, attribute: str, bit: int) -> WriteMessage:
    """Return a writer that also sets a flag if the event's attribute is true."""

    def flagged(item: Any, flags: int, rpt_seq: int | None) -> bytes:
        return write(item, flags | bit if getattr(item, attribute) else flags, rpt_seq)

    return flagged
