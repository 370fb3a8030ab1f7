"""An instrument's day in a lake for the page: books, heatmap, trades, bars, auctions.

The heatmap has the last tick of each time bin, as prices and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.lake.analytics.bars import interval_ns, is_interval, known_intervals
from pregao.lake.books.book_at import open_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.columns import integers
from pregao.lake.books.replay_span import LATEST
from pregao.lake.sql.duckdb_engine import LEVELS_OF_TICKS, bound_rows
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import day_begins_ns, day_number, midnight_ns
from pregao.web.json_encoding import auction_of, moment_data, number, trade_bars

DEPTH = 10
"""Levels per side of a tick."""

TAPE = 400
"""Maximum number of trades of a tape."""
ACTIVITY = 240
"""Number of bins of the timeline."""
_MAX_PATH = 600
"""Maximum number of points of an auction's path."""
_MAX_REPLAYS = 6
_SIDES = {"BUY": 1, "SELL": -1}


def heatmap_columns(ticks: Any, times: Int64Array, first: list[dict[str, Any]]) -> list[Any]:
    """Return, for each time, the bids and asks valid then, as price, size, price, size, …

    ``ticks`` are the ticks of the time range, ``first`` the sides of the book before them. A bin
    without a new tick is None.
    """
    sent = integers(ticks["sending_time_ns"])
    order = np.argsort(sent, kind="stable")
    last = np.searchsorted(sent[order], times, side="right") - 1
    fresh = np.diff(last, prepend=-1) > 0
    chosen = order[last[fresh]]
    sides = [
        [integers(ticks[f"{side}_{part}_{level}"])[chosen]
         for level in range(1, DEPTH + 1) for part in ("price", "size")]
        for side in ("bid", "ask")
    ]  # fmt: skip
    changes = iter(zip(*(np.column_stack(side).tolist() for side in sides), strict=True))
    columns: list[Any] = []
    for new in fresh.tolist():
        if new:
            bids, asks = next(changes)
            columns.append([_there(bids), _there(asks)])
        else:
            columns.append(None if columns else [_levels(side) for side in first])
    return columns


def _there(values: list[int]) -> list[int]:
    """Return the levels that exist and have a price."""
    return [
        value
        for index in range(0, len(values), 2)
        if values[index] != NULL and values[index + 1] != NULL
        for value in values[index : index + 2]
    ]


def _levels(side: dict[str, Any]) -> list[int]:
    return [
        value
        for price, size, _ in side["levels"][:DEPTH]
        if price is not None
        for value in (price, size)
    ]


_ROW = ("sent", "price", "size", "side", "busted_at", "trade_id", "buyer", "seller")
"""Columns of a trade's row."""


@dataclass(frozen=True, slots=True)
class TradeColumns:
    """Trades of a day as columns, by sending time."""

    sent: Int64Array
    price: Int64Array
    size: Int64Array
    side: Int64Array
    """Aggressor: 1 the buyer, -1 the seller, 0 unknown."""
    busted_at: Int64Array
    trade_id: Int64Array
    buyer: Int64Array
    seller: Int64Array
    time: Int64Array
    """Time of the trade, which determines its bar."""
    sets_last: Int64Array
    """1 if the trade set the last price, else 0."""

    def rows(self, begin: int, end: int, base: int) -> list[list[Any]]:
        """Return a range as rows of sent, price, size, side, busted at, ID, buyer, seller."""
        own = slice(begin, end)
        return [
            [
                sent - base, price, size, side, None if busted == NULL else busted - base,
                number(trade), number(buyer), number(seller),
            ]
            for sent, price, size, side, busted, trade, buyer, seller in zip(
                *(getattr(self, name)[own].tolist() for name in _ROW), strict=True
            )
        ]  # fmt: skip


class LakeInstrument:
    """Data of an instrument's day; frequently used data is read once."""

    def __init__(
        self, lake: LakeStore, catalog: FileCatalog, day: date, channel: int, security_id: int
    ) -> None:
        self.books = open_books(catalog, str(security_id), day, channel)
        self.base = midnight_ns(day)
        self._lake = lake
        self._tables = frozenset(lake.table_names())
        self._day = day
        self._own = {"date": day, "channel": channel, "security_id": security_id}

    def _rows(self, table: str, sql: str, **values: Any) -> Any | None:
        """Return the rows of a query on a table; None if the lake lacks the table."""
        if table not in self._tables:
            return None
        return bound_rows(self._lake, [table], sql, self._own | values)

    def _listed(self, table: str, sql: str, **values: Any) -> list[dict[str, Any]]:
        rows = self._rows(table, sql, **values)
        return [] if rows is None else rows.to_pylist()

    # About the day

    @cached_property
    def about(self) -> dict[str, Any]:
        """Names, start and end, phases, gaps, and activity over the day."""
        definition = self._listed(
            "instruments",
            "SELECT symbol, security_group, security_desc, asset, currency, isin_number, "
            "min_price_increment, min_lot_size FROM instruments "
            "WHERE date = $date AND channel = $channel AND security_id = $security_id LIMIT 1",
        )
        own = definition[0] if definition else {}
        security = self.books.instrument.security_id
        begin, end = self._ends()
        tick = own.get("min_price_increment")
        return {
            "symbol": own.get("symbol") or self.books.instrument.symbol or str(security),
            "id": str(security),
            "channel": self.books.instrument.channel,
            "day": self.books.instrument.date.isoformat(),
            "group": own.get("security_group"),
            "description": own.get("security_desc"),
            "currency": own.get("currency"),
            "isin": own.get("isin_number"),
            "tick": None if not tick else max(1, int(tick * 10_000)),
            "lot": own.get("min_lot_size"),
            "begin": begin,
            "end": end,
            "phases": self.phases(own.get("security_group")),
            "gaps": self.gaps(),
            "activity": self._activity(begin, end),
            "trades": len(self.trades.sent),
            "intervals": self._intervals(),
        }

    def _ends(self) -> tuple[int, int]:
        sent, ends = self._tick_times, self.books.data_ends_ns
        last = int(sent[-1]) if len(sent) else ends or self.base
        first = int(sent[0]) if len(sent) else last
        return first - self.base, max(last, ends or 0) - self.base

    def phases(self, group: str | None) -> list[list[Any]]:
        """Return phases as start, end, status, and whether the status is the instrument's own."""
        rows = self._listed(
            "status",
            "SELECT from_ns, until_ns, status, own_status, security_id FROM status "
            "WHERE date = $date AND channel = $channel AND (security_id = $security_id "
            "OR (security_id IS NULL AND security_group = CAST($security_group AS VARCHAR))) "
            "ORDER BY from_ns",
            security_group=group,
        )
        # An instrument's own rows are complete: they include the phases of its group.
        named = [row for row in rows if row["security_id"] is not None]
        return [
            [
                row["from_ns"] - self.base,
                None if row["until_ns"] is None else row["until_ns"] - self.base,
                row["status"],
                bool(row["own_status"]),
            ]
            for row in named or rows
        ]

    def gaps(self) -> list[list[Any]]:
        """Return gaps that the other feed did not close.

        A row has the time, the first and last missing number, what closed the gap, and whether it
        is a gap in the instrument's own messages.
        """
        rows = self._listed(
            "gaps",
            "SELECT capture_time_ns, first_missing, last_missing, closed_by, security_id, feed "
            "FROM gaps WHERE date = $date AND channel = $channel "
            "AND (security_id = $security_id OR security_id IS NULL) "
            "AND coalesce(closed_by, '') NOT LIKE 'feed %' "
            "ORDER BY capture_time_ns LIMIT 2000",
        )
        return [
            [
                row["capture_time_ns"] - self.base,
                row["first_missing"],
                row["last_missing"],
                row["closed_by"],
                row["security_id"] is not None,
            ]
            for row in rows
            if row["capture_time_ns"] is not None
        ]

    def _activity(self, begin: int, end: int) -> list[int]:
        """Return the traded quantity of each bin of the day."""
        width = max(1, -(-(end - begin + 1) // ACTIVITY))
        bins = (self.trades.sent - self.base - begin) // width
        inside = (bins >= 0) & (bins < ACTIVITY)
        sums = np.bincount(
            bins[inside], weights=self.trades.size[inside].astype(float), minlength=ACTIVITY
        )
        return [int(one) for one in sums.tolist()]

    def _intervals(self) -> list[str]:
        """Return the intervals of the bars, shortest first; unknown names are ignored."""
        rows = self._listed(
            "bars",
            'SELECT DISTINCT "interval" FROM bars '
            "WHERE date = $date AND channel = $channel AND security_id = $security_id",
        )
        return list(known_intervals(filter(is_interval, (row["interval"] for row in rows))))

    # Books and trades

    def book(self, at: int) -> dict[str, Any]:
        """Return the book at a time of the day."""
        return moment_data(self.books.at(self.base + at))

    def frames(self, begin: int, end: int, step: int) -> list[dict[str, Any]]:
        """Return the book at the end of each step in which it changed, between two times."""
        times = list(range(self.base + begin, self.base + end + 1, step))
        found: list[dict[str, Any]] = []
        before = None
        for moment in self.books.series(times, max_replays=_MAX_REPLAYS):
            key = (moment.book.state, moment.sequence_version, moment.sequence_number,
                   moment.index_in_packet, moment.last_price, moment.trade_volume)  # fmt: skip
            if key != before:
                found.append(moment_data(moment, whole=False))
            before = key
        return found

    @cached_property
    def trades(self) -> TradeColumns:
        """All trades of the day."""
        rows = self._rows(
            "trades",
            "SELECT sending_time_ns, price, size, aggressor_side, bust_time_ns, busted, trade_id, "
            "buyer, seller, time_ns, sets_last_price FROM trades "
            "WHERE date = $date AND channel = $channel AND security_id = $security_id "
            "ORDER BY sending_time_ns, sequence_version, sequence_number, index_in_packet",
        )
        if rows is None:
            return TradeColumns(*(np.empty(0, np.int64) for _ in TradeColumns.__slots__))
        sent = integers(rows["sending_time_ns"])
        busted = integers(pc.fill_null(rows["busted"], False).cast(pa.int8())) == 1
        busted_at = integers(rows["bust_time_ns"])
        # A bust without a time counts from the time of the trade.
        busted_at = np.where(busted, np.where(busted_at == NULL, sent, busted_at), NULL)
        side = np.zeros(len(sent), np.int64)
        for name, sign in _SIDES.items():
            own = pc.fill_null(pc.equal(rows["aggressor_side"], name), False)
            side[integers(own.cast(pa.int8())) == 1] = sign
        return TradeColumns(
            sent,
            integers(rows["price"]),
            integers(rows["size"]),
            side,
            busted_at,
            integers(rows["trade_id"]),
            integers(rows["buyer"]),
            integers(rows["seller"]),
            integers(rows["time_ns"]),
            integers(pc.fill_null(rows["sets_last_price"], False).cast(pa.int8())),
        )

    def tape(self, at: int, limit: int) -> list[list[Any]]:
        """Return the last trades up to a time, the oldest first."""
        end = int(np.searchsorted(self.trades.sent, self.base + at, side="right"))
        return self.trades.rows(max(0, end - min(limit, TAPE)), end, self.base)

    def trades_between(self, begin: int, end: int, limit: int = 5_000) -> list[list[Any]]:
        """Return the trades after `begin` up to `end`; if too many, the largest."""
        first, last = (
            int(np.searchsorted(self.trades.sent, self.base + at, side="right"))
            for at in (begin, end)
        )
        if last - first <= limit:
            return self.trades.rows(first, last, self.base)
        largest = np.argpartition(-self.trades.size[first:last], limit)[:limit]
        chosen = np.sort(largest) + first
        picked = TradeColumns(
            *(getattr(self.trades, name)[chosen] for name in TradeColumns.__slots__)
        )
        return picked.rows(0, limit, self.base)

    def jump(self, kind: str, at: int, forward: bool) -> int | None:
        """Return the time of the next or previous trade, gap or phase change, None if none."""
        if kind == "trade":
            times = self.trades.sent - self.base
        elif kind == "gap":
            times = np.array([gap[0] for gap in self.about["gaps"]], np.int64)
        else:
            times = np.array([phase[0] for phase in self.about["phases"]], np.int64)
        if forward:
            index = int(np.searchsorted(times, at, side="right"))
            return int(times[index]) if index < len(times) else None
        index = int(np.searchsorted(times, at, side="left")) - 1
        return int(times[index]) if index >= 0 else None

    # Charts

    def heatmap(self, begin: int, end: int, columns: int) -> dict[str, Any]:
        """Return levels over time, in `columns` bins: the best, or those around the balance.

        A crossed book, as in auctions, is shown around the price at which its sides balance.
        """
        times = np.linspace(begin, end, columns + 1)[1:].astype(np.int64) + self.base
        # Of perhaps a million ticks, a few hundred are shown: read the levels of those only.
        sent = self._tick_times
        last = np.unique(np.searchsorted(sent, times, side="right") - 1)
        chosen = sent[last[last >= np.searchsorted(sent, self.base + begin, side="right")]]
        rows = self._rows(
            "ticks",
            f"{LEVELS_OF_TICKS} WHERE date = $date AND channel = $channel "
            "AND security_id = $security_id AND sending_time_ns BETWEEN $first AND $last "
            "AND list_contains(CAST($times AS BIGINT[]), sending_time_ns)",
            times=chosen.tolist(),
            first=int(chosen[0]) if len(chosen) else 0,
            last=int(chosen[-1]) if len(chosen) else -1,
        )
        first = self.book(begin)
        shown = heatmap_columns(rows, times, first["sides"])
        self._show_auctions(shown, times)
        return {
            "times": (times - self.base).tolist(),
            "columns": shown,
            "trades": self.trades_between(begin, end, 2_000),
        }

    def _show_auctions(self, columns: list[Any], times: Int64Array) -> None:
        """Replace the best levels of crossed books with those around their balance."""
        crossed = [
            index
            for index, column in enumerate(columns)
            if column is not None and all(column) and column[0][0] >= column[1][0]
        ]
        at = {int(times[index]): index for index in crossed}
        for moment in self.books.series(sorted(at), max_replays=_MAX_REPLAYS):
            near = auction_of(moment.book)
            if near is not None and moment.at_ns is not None:
                columns[at[moment.at_ns]] = near

    @cached_property
    def _tick_times(self) -> Int64Array:
        """Sending times of the ticks' packets, sorted."""
        rows = self._rows(
            "ticks",
            "SELECT sending_time_ns FROM ticks "
            "WHERE date = $date AND channel = $channel AND security_id = $security_id",
        )
        return np.empty(0, np.int64) if rows is None else np.sort(integers(rows["sending_time_ns"]))

    def bars(self, interval: str, at: int | None = None, since: int | None = None) -> list[Any]:
        """Return bars as start, open, high, low, close and volume.

        They have the trades of the table ``bars``, but only what was known at a time: trades sent
        up to it and not busted until then, so that a replay does not show its future.

        Args:
            interval: An interval that the table has; there are no bars of others.
            at: Time up to which trades count; None for the end of the day.
            since: Leave out the bars that end before this time.
        """
        if interval not in self.about["intervals"]:
            return []
        trades = self.trades
        end = len(trades.sent)
        if at is not None:
            end = int(np.searchsorted(trades.sent, self.base + at, side="right"))
        length = interval_ns(interval)
        midnight = day_begins_ns(day_number(self._day))
        busted = trades.busted_at[:end]
        counts = (busted == NULL) | (busted > (LATEST if at is None else self.base + at))
        if since is not None:
            first = self.base + since
            counts &= trades.time[:end] >= first - (first - midnight) % length
        own = np.flatnonzero(counts)
        return trade_bars(
            trades.time[own], trades.price[own], trades.size[own], trades.sets_last[own],
            length, midnight, self.base,
        )  # fmt: skip

    @cached_property
    def auctions(self) -> list[dict[str, Any]]:
        """Auctions of the day, with theoretical prices, imbalances and results."""
        rows = self._listed(
            "auctions",
            "SELECT * FROM auctions WHERE date = $date AND channel = $channel "
            "AND security_id = $security_id ORDER BY start_ns",
        )
        return [self._auction(row) for row in rows]

    def _auction(self, row: dict[str, Any]) -> dict[str, Any]:
        def since(time: int | None) -> int | None:
            return None if time is None else time - self.base

        def price(value: Any) -> int | None:
            return None if value is None else int(value * 10_000)

        path = [
            [since(one["time_ns"]), price(one["price"]), one["size"]]
            for one in thinned(row["theoretical"] or [], _MAX_PATH)
            if one["time_ns"] is not None
        ]
        imbalances = [
            [since(one["time_ns"]), _SIDES.get(one["side"] or "", 0) * (one["size"] or 0)]
            for one in thinned(row["imbalances"] or [], _MAX_PATH)
            if one["time_ns"] is not None
        ]
        return {
            "kind": row["kind"],
            "begin": since(row["start_ns"]),
            "end": since(row["end_ns"]),
            "scheduled": since(row["scheduled_end_ns"]),
            "extensions": row["extensions"],
            "price": price(row["uncross_price"]),
            "volume": row["uncross_volume"],
            "trades": row["uncross_trades"],
            "path": path,
            "imbalances": imbalances,
        }


def thinned(values: list[Any], limit: int) -> list[Any]:
    """Return at most `limit` evenly spaced values of a list, including the last."""
    if len(values) <= limit:
        return values
    chosen = np.linspace(0, len(values) - 1, limit).astype(np.int64)
    return [values[index] for index in chosen.tolist()]
