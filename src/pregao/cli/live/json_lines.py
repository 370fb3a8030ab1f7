"""JSON lines of ``pregao live --json``: one per event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

from pregao.book.views import BookLevel
from pregao.cli.console import plain
from pregao.events import ChannelEvent
from pregao.live.health import FeedReport
from pregao.live.items import BookCopy, BookRefresh, ItemsMissed, LiveEvent, LiveItem
from pregao.umdf.sequencing import PacketKey
from pregao.units import price_text

_PACKET_KEY = fields(ChannelEvent)[0].name
_MANTISSA = "price_mantissa"


def line_of(item: LiveItem) -> str:
    """Return an item of the live feed as a line of JSON."""
    return plain(json.dumps(data_of(item), ensure_ascii=False, separators=(",", ":")))


def data_of(item: LiveItem) -> dict[str, Any]:
    """Return an item of the live feed as JSON-compatible data."""
    match item:
        case ItemsMissed(count):
            return {"event": "ItemsMissed", "count": count}
        case BookRefresh(channel, symbol, security_id, book):
            named = {"channel": channel, "symbol": symbol, "security_id": security_id}
            return {"event": "BookRefresh", **named, "book": book_data(book)}
        case LiveEvent(channel, symbol, event, book):
            data: dict[str, Any] = {"event": type(event).__name__, "channel": channel}
            if symbol is not None:
                data["symbol"] = symbol
            data |= {"market_event" if k == "event" else k: v for k, v in _fields(event).items()}
            if book is not None:
                data["book"] = book_data(book)
            return data


def book_data(book: BookCopy) -> dict[str, Any]:
    """Return a book as JSON-compatible data; prices are exact strings."""
    return {
        "state": book.state.name.lower(),
        **_packet_key(book.packet_key),
        "bids": [_level(level) for level in book.bid_levels],
        "asks": [_level(level) for level in book.ask_levels],
    }


def _level(level: BookLevel) -> list[Any]:
    return [price_text(level.price), level.size, level.orders]


def _packet_key(key: PacketKey | None) -> dict[str, int | None]:
    version, number = (None, None) if key is None else key
    return {"sequence_version": version, "sequence_number": number}


def _fields(event: ChannelEvent) -> dict[str, Any]:
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    key = _packet_key(values.pop(_PACKET_KEY))
    if "sequence_version" not in values:  # a gap or a new version has its own
        values = key | values
    if _MANTISSA in values:
        values = {"price" if name == _MANTISSA else name: each for name, each in values.items()}
        values["price"] = price_text(values["price"])
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """Convert a value to JSON-compatible data."""
    match value:
        case Enum():
            return value.name.lower()
        case Decimal() | date():
            return str(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            return value


def status_line(report: FeedReport) -> str:
    """Return the status of the feed as a line of JSON."""
    return json.dumps({"event": "Status", **status_data(report)}, separators=(",", ":"))


def status_data(report: FeedReport) -> dict[str, Any]:
    """Return a status report as JSON-compatible data."""
    return {
        "time_ns": report.at_ns,
        "ready": report.ready,
        "channels": [
            {
                "channel": each.number,
                "state": each.state.name.lower(),
                "instruments": each.instruments,
                "books": {state.name.lower(): count for state, count in each.books.items()},
                "dropped": each.dropped,
                "latency_ns": dict(zip(("p50", "p99", "max"), each.delays_ns, strict=True)),
                "counters": each.counters,
                "feeds": each.feeds,
            }
            for each in report.channels
        ],
        **({} if report.recorded is None else {"recorded": report.recorded}),
    }
