"""A lake for the page: its days, its instruments, how the feed was, how long things took."""

# ruff: noqa: S608 - what is put into queries are whole numbers, days and names of our own

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any

from pregao._version import __version__
from pregao.api import Lake
from pregao.errors import UsageError
from pregao.lake import store
from pregao.lake.analytics.latency_minutes import MEASURES
from pregao.lake.books import Catalogue
from pregao.names import folded, nearness
from pregao.umdf.news import NewsParts
from pregao.web.lake_instrument import LakeInstrument
from pregao.web.wire import midnight_ns

_KEPT = 8
"""So many instruments are kept at hand."""
_FOUND = 40
_MOST_GAPS = 500
_MOST_NEWS = 200
_SHARES = (0.5, 0.9, 0.99)


class LakeMarket:
    """Answers what the page asks of a lake; asked again after `refresh`, it sees what is new."""

    mode = "lake"

    def __init__(self, location: str, zone: tzinfo | None = None) -> None:
        self._lake = Lake(location)
        self._store = store.Lake(location)
        self._store.require()
        self._zone = zone or UTC
        self._lock = threading.Lock()
        self._instruments: OrderedDict[tuple[date, int, int], LakeInstrument] = OrderedDict()
        self._told: dict[tuple[Any, ...], Any] = {}
        self._catalogue = Catalogue(self._store)

    def refresh(self) -> None:
        """Forget what was read."""
        catalogue = Catalogue(self._store)
        with self._lock:
            self._catalogue = catalogue
            self._instruments.clear()
            self._told.clear()

    def _once(self, key: tuple[Any, ...], ask: Callable[[], Any]) -> Any:
        if key not in self._told:
            self._told[key] = ask()
        return self._told[key]

    def _listed(self, table: str, sql: str) -> list[dict[str, Any]]:
        if table not in self._store.table_names():
            return []
        rows: list[dict[str, Any]] = self._lake.sql(sql).to_pylist()
        return rows

    def about(self) -> dict[str, Any]:
        """What the page shows, and of which days."""
        self.refresh()
        days = sorted(self._catalogue.dates(), reverse=True)
        return {
            "mode": self.mode,
            "name": str(self._store.location),
            "version": __version__,
            "zone": str(self._zone),
            "days": [{"day": day.isoformat(), "offset": offset_s(day, self._zone)} for day in days],
        }

    # Instruments

    def _all(self, day: date) -> list[dict[str, Any]]:
        """Every instrument of a day with a book, the busiest first."""
        own = f"date = DATE '{day.isoformat()}'"

        def ask() -> list[dict[str, Any]]:
            books = self._listed(
                "books",
                "SELECT channel, security_id, symbol, messages, state, gaps FROM books "
                f"WHERE {own} ORDER BY messages DESC, security_id",
            )
            names = self._listed(
                "instruments",
                "SELECT channel, security_id, symbol, security_group, security_desc "
                f"FROM instruments WHERE {own}",
            )
            known = {(row["channel"], row["security_id"]): row for row in names}
            found = []
            for row in books:
                name = known.get((row["channel"], row["security_id"]), {})
                found.append(
                    {
                        "symbol": row["symbol"] or name.get("symbol") or str(row["security_id"]),
                        "id": str(row["security_id"]),
                        "channel": row["channel"],
                        "group": name.get("security_group"),
                        "description": name.get("security_desc"),
                        "messages": row["messages"],
                        "state": row["state"],
                        "gaps": row["gaps"],
                    }
                )
            return found

        found: list[dict[str, Any]] = self._once(("all", day), ask)
        return found

    def search(self, day: date, words: str) -> dict[str, Any]:
        """The instruments whose symbol, number or description has the words; all without any."""
        every = self._all(day)
        wanted = folded(words.strip())
        found = [
            one
            for one in every
            if wanted in folded(one["symbol"])
            or one["id"] == wanted
            or wanted in folded(one["description"] or "")
        ]
        found.sort(key=lambda one: nearness(one["symbol"], wanted))
        return {"count": len(found), "all": len(every), "instruments": found[:_FOUND]}

    def instrument(self, day: date, channel: int, security_id: int) -> LakeInstrument:
        """An instrument's day."""
        key = (day, channel, security_id)
        with self._lock:
            known = self._instruments.get(key)
            catalogue = self._catalogue
            if known is not None:
                self._instruments.move_to_end(key)
                return known
        opened = LakeInstrument(self._lake, catalogue, day, channel, security_id)
        with self._lock:
            kept = self._instruments.setdefault(key, opened)
            while len(self._instruments) > _KEPT:
                self._instruments.popitem(last=False)
        return kept

    # The feed

    def health(self, day: date) -> dict[str, Any]:
        """What became of packets, which were missing, how books are, which feed was first."""
        found: dict[str, Any] = self._once(("health", day), lambda: self._health(day))
        return found

    def _health(self, day: date) -> dict[str, Any]:
        own, base = f"date = DATE '{day.isoformat()}'", midnight_ns(day)
        legacy = self._of_legacy_feed(day)
        told = "legacy_packets" if legacy else "packets"
        packets = self._listed(
            told,
            "SELECT channel, stream, feed, outcome, count(*) AS packets, "
            f"sum(message_count) AS messages, sum(size) AS bytes FROM {told} "
            f"WHERE {own} GROUP BY ALL ORDER BY ALL",
        )
        # Packets of the legacy feed that hold no message with a time have 0.
        rates = self._listed(
            told,
            "SELECT (sending_time_ns // 60000000000) * 60000000000 AS minute, "
            f"count(*) AS packets, sum(message_count) AS messages, sum(size) AS bytes FROM {told} "
            f"WHERE {own} AND stream = 'incremental' AND sending_time_ns > 0 "
            "GROUP BY 1 ORDER BY 1",
        )
        missing = f"FROM {_GAPS_OF_BOTH if legacy else 'gaps'} WHERE {own}"
        gaps = self._listed(
            "legacy_gaps" if legacy else "gaps",
            "SELECT channel, security_id, feed, first_missing, last_missing, closed_by, "
            f"capture_time_ns, reason {missing} ORDER BY capture_time_ns LIMIT {_MOST_GAPS}",
        )
        counted = self._listed(
            "legacy_gaps" if legacy else "gaps",
            f"SELECT closed_by, count(*) AS gaps {missing} GROUP BY 1 ORDER BY 1",
        )
        symbols = {one["id"]: one["symbol"] for one in self._all(day)}
        lead = ", ".join(
            f"percentile(feed_difference_ns, {share}) AS p{round(share * 100)}" for share in _SHARES
        )
        first = _LEGACY_PACKETS if legacy else "latency"
        feeds = self._listed(
            "legacy_incremental_refresh" if legacy else "latency",
            f"SELECT feed, count(*) AS events, {lead} FROM {first} "
            f"WHERE {own} AND feed_difference_ns IS NOT NULL GROUP BY feed ORDER BY feed",
        )
        states: dict[str, int] = {}
        for one in self._all(day):
            states[one["state"]] = states.get(one["state"], 0) + 1
        audit = self._listed(
            "book_audit",
            "SELECT result, count(*) AS snapshots FROM book_audit "
            f"WHERE {own} GROUP BY 1 ORDER BY 1",
        )
        return {
            "packets": packets,
            "rates": [
                [row["minute"] - base, row["packets"], row["messages"], row["bytes"]]
                for row in rates
            ],
            "gaps": [
                {
                    **row,
                    "capture_time_ns": None,
                    "security_id": None,
                    "at": None if row["capture_time_ns"] is None else row["capture_time_ns"] - base,
                    "symbol": _symbol(symbols, row["security_id"]),
                }
                for row in gaps
            ],
            "closed": counted,
            "feeds": feeds,
            "states": states,
            "audit": audit,
            "doubtful": [one for one in self._all(day) if one["state"] in ("stale", "unconfirmed")][
                :_FOUND
            ],
        }

    def _of_legacy_feed(self, day: date) -> bool:
        """Has the lake packets of this day on the legacy feed alone?"""

        def some(table: str) -> bool:
            own = f"date = DATE '{day.isoformat()}'"
            return bool(self._listed(table, f"SELECT 1 AS one FROM {table} WHERE {own} LIMIT 1"))

        return not some("packets") and some("legacy_packets")

    def latency(self, day: date, channel: int) -> dict[str, Any]:
        """How long things took: percentiles minute by minute, and how they were spread."""
        found: dict[str, Any] = self._once(
            ("latency", day, channel), lambda: self._latency(day, channel)
        )
        return found

    def _latency(self, day: date, channel: int) -> dict[str, Any]:
        own = f"date = DATE '{day.isoformat()}' AND channel = {channel}"
        base = midnight_ns(day)
        minutes: dict[str, list[Any]] = {}
        for row in self._listed(
            "latency_minutes",
            "SELECT measure, minute_ns, events, p50_ns, p90_ns, p99_ns, p999_ns, max_ns "
            f"FROM latency_minutes WHERE {own} ORDER BY minute_ns",
        ):
            minutes.setdefault(row["measure"], []).append(
                [row["minute_ns"] - base, row["events"], row["p50_ns"], row["p90_ns"],
                 row["p99_ns"], row["p999_ns"], row["max_ns"]]
            )  # fmt: skip
        spread = {}
        for measure, span in MEASURES.items():
            if measure in minutes:
                rows = self._listed(
                    "latency",
                    f"SELECT CAST(floor(log10({span}) * 10) AS INTEGER) AS bin, "
                    f"count(*) AS events FROM latency WHERE {own} AND ({span}) > 0 "
                    "GROUP BY 1 ORDER BY 1",
                )
                spread[measure] = [[row["bin"], row["events"]] for row in rows]
        return {"minutes": minutes, "spread": spread}

    def news(self, day: date) -> list[dict[str, Any]]:
        """The news of a day, put together from their parts."""
        found: list[dict[str, Any]] = self._once(("news", day), lambda: self._news(day))
        return found

    def _news(self, day: date) -> list[dict[str, Any]]:
        base = midnight_ns(day)
        if self._of_legacy_feed(day):
            return self._legacy_news(day)
        rows = self._listed(
            "umdf_news_5",
            f"SELECT * FROM umdf_news_5 WHERE date = DATE '{day.isoformat()}' "
            "ORDER BY sending_time_ns, sequence_number, index_in_packet LIMIT 20000",
        )
        parts = NewsParts()
        symbols = {one["id"]: one["symbol"] for one in self._all(day)}
        found = []
        for row in rows:
            values = {name: row[column] for name, column in _NEWS_FIELDS.items()}
            piece = parts.part(values, row["sending_time_ns"])
            if piece is not None:
                found.append(
                    {
                        "at": row["sending_time_ns"] - base,
                        "headline": piece.headline,
                        "text": piece.text,
                        "symbol": _symbol(symbols, piece.security_id),
                        "source": None if piece.source is None else str(piece.source),
                    }
                )
        return found[-_MOST_NEWS:]

    def _legacy_news(self, day: date) -> list[dict[str, Any]]:
        """The news of the legacy feed, whose messages are whole."""
        base = midnight_ns(day)
        symbols = {one["id"]: one["symbol"] for one in self._all(day)}
        rows = self._listed(
            "legacy_news",
            f"SELECT * FROM legacy_news WHERE date = DATE '{day.isoformat()}' "
            f"ORDER BY sending_time_ns DESC, sequence_number DESC LIMIT {_MOST_NEWS}",
        )
        found = []
        for row in reversed(rows):
            lines = json.loads(row["lines_of_text"] or "[]")
            about = json.loads(row["related_sym"] or "[]")
            texts = [line.get("EncodedText") or line.get("Text") or "" for line in lines]
            found.append(
                {
                    "at": row["sending_time_ns"] - base,
                    "headline": row["encoded_headline"] or row["headline"],
                    "text": "\n".join(texts),
                    "symbol": _symbol(symbols, about[0].get("SecurityID") if about else None),
                    "source": row["news_source"],
                }
            )
        return found


_GAPS_OF_BOTH = "(SELECT * FROM gaps UNION ALL BY NAME SELECT * FROM legacy_gaps)"
_LEGACY_PACKETS = (
    "(SELECT DISTINCT date, channel, sequence_version, sequence_number, feed, feed_difference_ns "
    "FROM legacy_incremental_refresh)"
)
"""The packets of the legacy feed, which its messages tell of; there are no latencies of events."""
_NEWS_FIELDS = {
    "securityID": "security_id", "newsSource": "news_source", "languageCode": "language_code",
    "partCount": "part_count", "partNumber": "part_number", "newsID": "news_id",
    "origTime": "orig_time_ns", "headline": "headline", "text": "text", "uRLLink": "url_link",
}  # fmt: skip


def _symbol(symbols: dict[str, str], security_id: int | None) -> str | None:
    if security_id is None:
        return None
    return symbols.get(str(security_id), str(security_id))


def offset_s(day: date, zone: tzinfo) -> int:
    """How many seconds a zone is ahead of UTC at noon of a day."""
    offset = datetime.combine(day, time(12), UTC).astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def parse_day(text: str) -> date:
    """A day as the page names it."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no day such as 2026-05-21.") from None
