"""News items, assembled from their parts, which may arrive in any order (000 §5.8).

The bytes of the parts are joined; if their number is not ``totalTextLength``, the item is dropped.
News of the engine has no number: its parts are matched by source, time, instrument and count. The
length of an item and the wait for its parts are limited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pregao.clock import SECOND

MAX_BYTES = 1 << 20
MAX_WAIT_NS = 60 * SECOND
MAX_PENDING = 256
"""Maximum number of incomplete items; beyond it, the oldest is dropped."""
DEFAULT_LANGUAGE = "pt"
"""Language of news that states none (001 §9.2.4, 002 §10.11)."""


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A complete news item."""

    news_id: int | None
    source: str | int | None
    language: str
    security_id: int | None
    """None if it is not about an instrument."""
    time_ns: int | None
    headline: str
    text: str
    url: str
    parts: int


_Key = tuple[Any, ...]


@dataclass(slots=True)
class _Piece:
    since_ns: int
    parts: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    size: int = 0


class NewsParts:
    """Assembles news items from their parts."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_wait_ns: int = MAX_WAIT_NS) -> None:
        self._max_bytes = max_bytes
        self._max_wait_ns = max_wait_ns
        self._pieces: dict[_Key, _Piece] = {}
        self.dropped = 0
        """Items that were too long, of another length, or without all their parts in time."""

    def __len__(self) -> int:
        """Return the number of incomplete items."""
        return len(self._pieces)

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the oldest incomplete item is dropped."""
        first = next(iter(self._pieces.values()), None)
        return None if first is None else first.since_ns + self._max_wait_ns

    def expire(self, now_ns: int) -> None:
        """Drop items whose deadline has passed."""
        while (deadline := self.deadline_ns) is not None and now_ns >= deadline:
            self._drop(next(iter(self._pieces)))

    def part(self, values: Mapping[str, Any], now_ns: int) -> NewsItem | None:
        """Add a part. Returns the complete item if this was its last part, else None."""
        self.expire(now_ns)
        count, number = values.get("partCount") or 1, values.get("partNumber") or 1
        if number > count:
            self.dropped += 1
            return None
        if count == 1:
            return _joined([values], values.get("text") or "")
        key = (
            values.get("newsID"), values.get("newsSource"), values.get("origTime"),
            values.get("securityID"), values.get("languageCode"), count,
        )  # fmt: skip
        piece = self._pieces.get(key)
        if piece is None:
            if len(self._pieces) >= MAX_PENDING:
                self._drop(next(iter(self._pieces)))
            piece = self._pieces[key] = _Piece(now_ns)
        if number not in piece.parts:
            piece.parts[number] = values
            piece.size += sum(len(values.get(name) or "") for name in _TEXTS)
        if piece.size > self._max_bytes:
            self._drop(key)
            return None
        if len(piece.parts) < count:
            return None
        parts = [piece.parts[each] for each in range(1, count + 1)]
        text = _joined_text([each.get("text") or "" for each in parts])
        total = values.get("totalTextLength")
        # An escape may also be literal text.
        if total not in (None, len(_wire_bytes(text)), len(text.encode())):
            self._drop(key)
            return None
        del self._pieces[key]
        return _joined(parts, text)

    def _drop(self, key: _Key) -> None:
        del self._pieces[key]
        self.dropped += 1


_TEXTS = ("headline", "text", "uRLLink")


_ESCAPES_AT_END = re.compile(r"(?:\\x[c-f][0-9a-f](?:\\x[89ab][0-9a-f]){0,2})$")
_ESCAPES_AT_BEGIN = re.compile(r"^(?:\\x[89ab][0-9a-f]){1,3}")
"""A character that was cut between two parts: its bytes, which the decoder wrote as ``\\xNN``."""
_ESCAPES = re.compile(rb"\\x([89a-f][0-9a-f])")


def _joined_text(texts: list[str]) -> str:
    """Join texts as the bytes that were cut, so that a character may span two parts."""
    joined = texts[0]
    for text in texts[1:]:
        head, tail = _ESCAPES_AT_END.search(joined), _ESCAPES_AT_BEGIN.match(text)
        if head is None or tail is None:
            joined += text
            continue
        cut = _wire_bytes(head[0] + tail[0]).decode("utf-8", "backslashreplace")
        joined = joined[: head.start()] + cut + text[tail.end() :]
    return joined


def _wire_bytes(text: str) -> bytes:
    """Return the bytes of a text, those that the decoder wrote as ``\\xNN`` restored."""
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())


def _joined(parts: list[Mapping[str, Any]], text: str) -> NewsItem:
    first = parts[0]
    # Every part may have the headline and URL, or only the first one.
    headline, url = (
        next((part[name] for part in parts if part.get(name)), "")
        for name in ("headline", "uRLLink")
    )
    return NewsItem(
        first.get("newsID"),
        first.get("newsSource"),
        first.get("languageCode") or DEFAULT_LANGUAGE,
        first.get("securityID"),
        first.get("origTime"),
        headline,
        text,
        url,
        len(parts),
    )
