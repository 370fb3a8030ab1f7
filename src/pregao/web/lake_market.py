"""Lake data of the page: days, instruments, feed health, latencies, news."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any

from pregao._version import __version__
from pregao.lake.analytics.latency import MEASURES
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.sql.duckdb_engine import bound_rows
from pregao.lake.storage.lake_store import LakeStore
from pregao.name_matching import folded, nearness
from pregao.safe_io.documents import DocumentError, parse_json
from pregao.umdf.news import NewsParts
from pregao.units import midnight_ns
from pregao.web.lake_instrument import LakeInstrument

Query = tuple[tuple[str, ...], str]
"""Tables and a query on them."""

SOME_OF_DAY = {
    "packets": "SELECT 1 AS one FROM packets WHERE date = $date LIMIT 1",
    "legacy_packets": "SELECT 1 AS one FROM legacy_packets WHERE date = $date LIMIT 1",
}

_OUTCOMES = """
SELECT channel, stream, feed, outcome, count(*) AS packets,
  CAST(sum(message_count) AS BIGINT) AS messages, CAST(sum("size") AS BIGINT) AS bytes
FROM packets WHERE date = $date GROUP BY ALL ORDER BY ALL
"""
# Legacy packets without a message that has a time have sending_time_ns 0.
_RATES = """
SELECT (sending_time_ns // 60000000000) * 60000000000 AS minute, count(*) AS packets,
  CAST(sum(message_count) AS BIGINT) AS messages, CAST(sum("size") AS BIGINT) AS bytes
FROM packets WHERE date = $date AND stream = 'incremental' AND sending_time_ns > 0
GROUP BY 1 ORDER BY 1
"""
_GAPS = """
SELECT channel, security_id, feed, first_missing, last_missing, closed_by, capture_time_ns, reason
FROM gaps WHERE date = $date ORDER BY capture_time_ns LIMIT 500
"""
_CLOSED = """
SELECT closed_by, count(*) AS gaps FROM gaps WHERE date = $date GROUP BY 1 ORDER BY 1
"""
_FEEDS = """
SELECT feed, count(*) AS events, quantile_cont(feed_difference_ns, 0.5) AS p50,
  quantile_cont(feed_difference_ns, 0.9) AS p90, quantile_cont(feed_difference_ns, 0.99) AS p99
FROM latency WHERE date = $date AND feed_difference_ns IS NOT NULL GROUP BY feed ORDER BY feed
"""
_BOTH_GAPS = "FROM (SELECT * FROM gaps UNION ALL BY NAME SELECT * FROM legacy_gaps) "
# Packets of the legacy feed are derived from its messages, as its events have no latency rows.
_LEGACY_PACKETS = """
FROM (SELECT DISTINCT date, channel, sequence_version, sequence_number, feed, feed_difference_ns
  FROM legacy_incremental_refresh) """

BINARY_FEED: tuple[Query, ...] = (
    (("packets",), _OUTCOMES),
    (("packets",), _RATES),
    (("gaps",), _GAPS),
    (("gaps",), _CLOSED),
    (("latency",), _FEEDS),
)
"""Outcomes of packets, rates per minute, gaps, gaps by closing reason, lead of each feed."""

LEGACY_FEED: tuple[Query, ...] = (
    (("legacy_packets",), _OUTCOMES.replace("FROM packets ", "FROM legacy_packets ")),
    (("legacy_packets",), _RATES.replace("FROM packets ", "FROM legacy_packets ")),
    (("gaps", "legacy_gaps"), _GAPS.replace("FROM gaps ", _BOTH_GAPS)),
    (("gaps", "legacy_gaps"), _CLOSED.replace("FROM gaps ", _BOTH_GAPS)),
    (("legacy_incremental_refresh",), _FEEDS.replace("FROM latency ", _LEGACY_PACKETS)),
)
"""Queries of `BINARY_FEED`, for a day that the lake has on the legacy feed only."""

_HISTOGRAM = """
SELECT CAST(floor(log10({span}) * 10) AS INTEGER) AS bin, count(*) AS events
FROM latency WHERE date = $date AND channel = $channel AND ({span}) > 0 GROUP BY 1 ORDER BY 1
"""
SPREAD_OF_LATENCY = {measure: _HISTOGRAM.format(span=span) for measure, span in MEASURES.items()}
"""Histogram queries of latency measures, ten bins per decade."""

_MAX_CACHED_INSTRUMENTS = 8
"""Maximum number of cached instruments."""
_MAX_ANSWERS = 64
"""Maximum number of cached answers; a limit is needed as a request may name any day."""
_MAX_FOUND = 40
_MAX_NEWS = 200

_NEWS_FIELDS = {
    "securityID": "security_id", "newsSource": "news_source", "languageCode": "language_code",
    "partCount": "part_count", "partNumber": "part_number", "newsID": "news_id",
    "origTime": "orig_time_ns", "headline": "headline", "text": "text", "uRLLink": "url_link",
    "totalTextLength": "total_text_length",
}  # fmt: skip


class LakeMarket:
    """Data source of the page for a lake; caches answers until `refresh`."""

    mode = "lake"

    def __init__(self, location: str, zone: tzinfo | None = None) -> None:
        self._store = LakeStore(location)
        self._store.require()
        self._zone = zone or UTC
        self._lock = threading.Lock()
        self._instruments: OrderedDict[tuple[date, int, int], LakeInstrument] = OrderedDict()
        self._published: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._catalog = FileCatalog(self._store)

    def refresh(self) -> None:
        """Clear the caches, so that new data is read."""
        catalog = FileCatalog(self._store)
        with self._lock:
            self._catalog = catalog
            self._instruments.clear()
            self._published.clear()

    def _once(self, key: tuple[Any, ...], ask: Callable[[], Any]) -> Any:
        """Return a cached answer, or compute and cache it, evicting the oldest if necessary."""
        with self._lock:
            if key in self._published:
                return self._published[key]
        answer = ask()
        with self._lock:
            self._published[key] = answer
            while len(self._published) > _MAX_ANSWERS:
                self._published.popitem(last=False)
        return answer

    def _listed(self, tables: Sequence[str], sql: str, **values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query; none if the lake lacks one of the tables."""
        if not set(tables).issubset(self._store.table_names()):
            return []
        rows: list[dict[str, Any]] = bound_rows(self._store, tables, sql, values).to_pylist()
        return rows

    def about(self) -> dict[str, Any]:
        """Return the name of the lake, its days and the version."""
        self.refresh()
        days = sorted(self._catalog.dates(), reverse=True)
        return {
            "mode": self.mode,
            "name": str(self._store.location),
            "version": __version__,
            "zone": str(self._zone),
            "days": [{"day": day.isoformat(), "offset": offset_s(day, self._zone)} for day in days],
        }

    # Instruments

    def _all(self, day: date) -> list[dict[str, Any]]:
        """Return every instrument of a day that has a book, the busiest first."""

        def ask() -> list[dict[str, Any]]:
            books = self._listed(
                ["books"],
                "SELECT channel, security_id, symbol, messages, state, gaps FROM books "
                "WHERE date = $date ORDER BY messages DESC, security_id",
                date=day,
            )
            names = self._listed(
                ["instruments"],
                "SELECT channel, security_id, symbol, security_group, security_desc "
                "FROM instruments WHERE date = $date",
                date=day,
            )
            names_by_key = {(row["channel"], row["security_id"]): row for row in names}
            found = []
            for row in books:
                name = names_by_key.get((row["channel"], row["security_id"]), {})
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
        """Return instruments whose symbol, ID or description matches; all if `words` is empty."""
        all_instruments = self._all(day)
        wanted = folded(words.strip())
        found = [
            one
            for one in all_instruments
            if wanted in folded(one["symbol"])
            or one["id"] == wanted
            or wanted in folded(one["description"] or "")
        ]
        found.sort(key=lambda one: nearness(one["symbol"], wanted))
        return {"count": len(found), "all": len(all_instruments), "instruments": found[:_MAX_FOUND]}

    def instrument(self, day: date, channel: int, security_id: int) -> LakeInstrument:
        """Return an instrument's day, cached."""
        key = (day, channel, security_id)
        with self._lock:
            cached = self._instruments.get(key)
            catalog = self._catalog
            if cached is not None:
                self._instruments.move_to_end(key)
                return cached
        opened = LakeInstrument(self._store, catalog, day, channel, security_id)
        with self._lock:
            kept = self._instruments.setdefault(key, opened)
            while len(self._instruments) > _MAX_CACHED_INSTRUMENTS:
                self._instruments.popitem(last=False)
        return kept

    # The feed

    def health(self, day: date) -> dict[str, Any]:
        """Return packet outcomes, gaps, states of books and feed leads of a day."""
        found: dict[str, Any] = self._once(("health", day), lambda: self._health(day))
        return found

    def _health(self, day: date) -> dict[str, Any]:
        base = midnight_ns(day)
        queries = LEGACY_FEED if self._of_legacy_feed(day) else BINARY_FEED
        packets, rates, gaps, closed, feeds = (
            self._listed(tables, sql, date=day) for tables, sql in queries
        )
        symbols = {one["id"]: one["symbol"] for one in self._all(day)}
        states: dict[str, int] = {}
        for one in self._all(day):
            states[one["state"]] = states.get(one["state"], 0) + 1
        audit = self._listed(
            ["book_audit"],
            "SELECT result, count(*) AS snapshots FROM book_audit "
            "WHERE date = $date GROUP BY 1 ORDER BY 1",
            date=day,
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
            "closed": closed,
            "feeds": feeds,
            "states": states,
            "audit": audit,
            "doubtful": [one for one in self._all(day) if one["state"] in ("stale", "unconfirmed")][
                :_MAX_FOUND
            ],
        }

    def _of_legacy_feed(self, day: date) -> bool:
        """Whether the lake has packets of this day on the legacy feed only."""

        def some(table: str) -> bool:
            return bool(self._listed([table], SOME_OF_DAY[table], date=day))

        return not some("packets") and some("legacy_packets")

    def latency(self, day: date, channel: int) -> dict[str, Any]:
        """Return latency percentiles per minute, and their histograms."""
        found: dict[str, Any] = self._once(
            ("latency", day, channel), lambda: self._latency(day, channel)
        )
        return found

    def _latency(self, day: date, channel: int) -> dict[str, Any]:
        base = midnight_ns(day)
        minutes: dict[str, list[Any]] = {}
        for row in self._listed(
            ["latency_minutes"],
            "SELECT measure, minute_ns, events, p50_ns, p90_ns, p99_ns, p999_ns, max_ns "
            "FROM latency_minutes WHERE date = $date AND channel = $channel ORDER BY minute_ns",
            date=day,
            channel=channel,
        ):
            minutes.setdefault(row["measure"], []).append(
                [row["minute_ns"] - base, row["events"], row["p50_ns"], row["p90_ns"],
                 row["p99_ns"], row["p999_ns"], row["max_ns"]]
            )  # fmt: skip
        spread = {}
        for measure, sql in SPREAD_OF_LATENCY.items():
            if measure in minutes:
                rows = self._listed(["latency"], sql, date=day, channel=channel)
                spread[measure] = [[row["bin"], row["events"]] for row in rows]
        return {"minutes": minutes, "spread": spread}

    def news(self, day: date) -> list[dict[str, Any]]:
        """Return the news of a day, assembled from their parts."""
        found: list[dict[str, Any]] = self._once(("news", day), lambda: self._news(day))
        return found

    def _news(self, day: date) -> list[dict[str, Any]]:
        base = midnight_ns(day)
        if self._of_legacy_feed(day):
            return self._legacy_news(day)
        rows = self._listed(
            ["umdf_news_5"],
            "SELECT * FROM umdf_news_5 WHERE date = $date "
            "ORDER BY sending_time_ns, sequence_number, index_in_packet LIMIT 20000",
            date=day,
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
        return found[-_MAX_NEWS:]

    def _legacy_news(self, day: date) -> list[dict[str, Any]]:
        """Return the news of the legacy feed, whose messages have no parts."""
        base = midnight_ns(day)
        symbols = {one["id"]: one["symbol"] for one in self._all(day)}
        rows = self._listed(
            ["legacy_news"],
            "SELECT * FROM legacy_news WHERE date = $date "
            "ORDER BY sending_time_ns DESC, sequence_number DESC LIMIT $limit",
            date=day,
            limit=_MAX_NEWS,
        )
        found = []
        for row in reversed(rows):
            about = _tables(row["related_sym"])
            lines = _tables(row["lines_of_text"])
            texts = [str(line.get("EncodedText") or line.get("Text") or "") for line in lines]
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


def _tables(text: str | None) -> list[dict[str, Any]]:
    """Return the objects of a JSON list, as written by ingest; none if it is anything else."""
    try:
        found = parse_json(text or "[]")
    except DocumentError:
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _symbol(symbols: dict[str, str], security_id: int | None) -> str | None:
    if security_id is None:
        return None
    return symbols.get(str(security_id), str(security_id))


def offset_s(day: date, zone: tzinfo) -> int:
    """Return the UTC offset of a zone at noon of a day, in seconds."""
    offset = datetime.combine(day, time(12), UTC).astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
