"""Statistics other than the book: last price, volume, limits and phases, from messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.update_rows import NULL
from pregao.feed.columns import ComparedColumns, MessageColumns
from pregao.feed.messages import KeyColumns, key_columns
from pregao.feed.packet_keys import message_serials
from pregao.feed.replay import _kernels
from pregao.feed.replay.snapshots import LoopRows, Snapshots, owners
from pregao.umdf.phases import NOT_LAST_SUB_TYPES, SESSION_CHANGE, set_last_price
from pregao.umdf.templates import (
    EXECUTION_STATISTICS,
    FORWARD_TRADE,
    LAST_TRADE_PRICE,
    PRICE_BANDS,
    TRADE,
    by_name,
)

TRADE_COLUMNS = ("md_entry_px", "trade_condition", "trd_sub_type", "trade_id", "trade_date")
"""Columns of trades that are read."""
_SESSION_CHANGE = dict.fromkeys(SESSION_CHANGE, 1)
_NO_EVENT = -2
_LIMITS = by_name("PriceBandType", {1: 0, 3: 1, 4: 2})
"""Kinds of price limits by precedence (hard, rejection, static): the first in force is shown."""
_OTHER_LIMITS = 3
_AUCTION_LIMITS = by_name("PriceBandType", {2: 1})
_PRICES = by_name("PriceLimitType", {0: 1})


def last_before(
    ranks: Int64Array, serials: Int64Array, wanted_ranks: Int64Array, requested_serials: Int64Array
) -> Int64Array:
    """Find for each wanted serial the last row of its rank up to it, or -1; inputs are sorted."""
    result = np.empty(len(wanted_ranks), np.int64)
    _kernels.last_before(ranks, serials, wanted_ranks, requested_serials, result)
    return result


@dataclass(slots=True)
class OtherMessages:
    """Messages of some instruments that change no book, by template and stream."""

    incremental: Mapping[int, ComparedColumns]
    snapshot: Mapping[int, ComparedColumns]
    """Sorted, without duplicates."""
    names: Mapping[int, str]
    """Names of the templates."""
    _keys: dict[int, list[KeyColumns]] = field(default_factory=dict, repr=False)
    _owners: dict[int, tuple[Snapshots, Int64Array]] = field(default_factory=dict, repr=False)
    # Both are cached: every window of a day needs them, and they do not change.

    def keys(self, base: int) -> list[KeyColumns]:
        """Return the keys of the incremental messages, by template."""
        if base not in self._keys:
            self._keys[base] = [key_columns(rows, base) for rows in self.incremental.values()]
        return self._keys[base]

    def _owner(self, template: int, snapshots: Snapshots) -> Int64Array:
        """Return the snapshots to which the statistics of a template belong."""
        cached = self._owners.get(template)
        if cached is None or cached[0] is not snapshots:
            rows = LoopRows.from_messages(self.snapshot[template])
            cached = self._owners[template] = (snapshots, owners(snapshots.loop, rows))
        return cached[1]

    def loop_rows(self) -> LoopRows:
        """Return the positions of all statistics of the snapshot stream."""
        return LoopRows.concat([LoopRows.from_messages(rows) for rows in self.snapshot.values()])

    def of_snapshots(
        self, template: int, snapshots: Snapshots | None, chosen: Int64Array
    ) -> tuple[ComparedColumns, Int64Array] | None:
        """Return a template's statistics in chosen snapshots and their owners; None if none."""
        rows = self.snapshot.get(template)
        if rows is None or snapshots is None or not len(chosen):
            return None
        owner = self._owner(template, snapshots)
        own = np.flatnonzero(np.isin(owner, chosen))
        return (rows.take(own), owner[own]) if len(own) else None


@dataclass(slots=True)
class StatisticColumns:
    """Changes of last price and volume, by instrument and message serial."""

    rank: Int64Array
    message_serial: Int64Array
    event: Int64Array
    kind: Uint8Array
    value: Int64Array
    order: Int64Array
    """Order key of a trade: its day and number as one number."""

    def __len__(self) -> int:
        return len(self.rank)

    @staticmethod
    def concat(parts: Sequence[StatisticColumns]) -> StatisticColumns:
        """Join all of them, sorted by instrument and message serial."""
        if not parts:
            empty = np.empty(0, np.int64)
            return StatisticColumns(empty, empty, empty, np.empty(0, np.uint8), empty, empty)
        columns = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in fields(StatisticColumns)
        }
        order = np.lexsort((columns["message_serial"], columns["rank"]))
        return StatisticColumns(**{name: column[order] for name, column in columns.items()})

    def within(self, first: int, last: int) -> StatisticColumns:
        """Return those from one message serial to another."""
        inside = np.flatnonzero((self.message_serial >= first) & (self.message_serial <= last))
        return StatisticColumns(*(getattr(self, column.name)[inside] for column in fields(self)))


class StatisticReader:
    """Returns last price and volume at message serials that are requested in order."""

    def __init__(self) -> None:
        self._state = np.full(5, NULL, np.int64)
        self._state[0] = -1
        self.statistics = StatisticColumns.concat(())

    def set_initial(self, rank: int, price: int | None, volume: int | None) -> None:
        """Start with the known values of an instrument."""
        self._state[0] = rank
        self._state[1] = NULL if price is None else price
        self._state[3] = NULL if volume is None else volume

    def load(self, statistics: StatisticColumns) -> None:
        """Continue with these statistics; the values of the last instrument remain.

        Statistics not yet read precede them: the last event of a window is completed in the next
        one.
        """
        own, read = self.statistics, int(self._state[4])
        left = StatisticColumns(*(getattr(own, column.name)[read:] for column in fields(own)))
        self.statistics = StatisticColumns.concat([left, statistics]) if len(left) else statistics
        self._state[4] = 0

    def at(
        self, rank: Int64Array, message_serial: Int64Array, event: Int64Array | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """Return last price and volume at each serial, after its event (if given) ends."""
        if event is None:
            event = np.full(len(rank), _NO_EVENT, np.int64)
        prices, volumes = np.empty(len(rank), np.int64), np.empty(len(rank), np.int64)
        own = self.statistics
        _kernels.statistics_at(
            own.rank, own.message_serial, own.event, own.kind, own.value, own.order,
            rank, message_serial, event, self._state, prices, volumes,
        )  # fmt: skip
        return prices, volumes


def statistics_of(
    tables: Mapping[int, MessageColumns],
    securities: Int64Array,
    base: int,
    message_serial: Int64Array | None = None,
) -> list[StatisticColumns]:
    """Return the statistics in messages.

    For snapshots, ``tables`` contains one template, and ``message_serial`` those of its rows.
    """
    parts = []
    for template in (TRADE, FORWARD_TRADE, LAST_TRADE_PRICE):
        rows = tables.get(template)
        if rows is not None:
            value = rows.numbers("md_entry_px")
            order = (rows.numbers("trade_date", 0) << 40) | rows.numbers("trade_id", 0)
            kind = np.full(len(rows), _kernels.LAST_TRADE, np.uint8)
            kept = np.arange(len(rows))
            if template != LAST_TRADE_PRICE:
                kind[:] = _kernels.TRADE
                excluded = rows.codes("trd_sub_type", dict.fromkeys(NOT_LAST_SUB_TYPES, 1), 0) == 1
                sets = set_last_price(rows.numbers("trade_condition", 0), excluded)
                kept = np.flatnonzero(sets)
            parts.append(
                _statistics(rows, securities, base, kind, value, order, message_serial, kept)
            )
    rows = tables.get(EXECUTION_STATISTICS)
    if rows is not None:
        none = rows.numbers("number_of_trades") == 0
        kind = np.where(none, _kernels.NO_VOLUME, _kernels.VOLUME).astype(np.uint8)
        zero, kept = np.zeros(len(rows), np.int64), np.arange(len(rows))
        value = rows.numbers("trade_volume")
        parts.append(_statistics(rows, securities, base, kind, value, zero, message_serial, kept))
    return parts


def snapshot_statistics(
    others: OtherMessages,
    snapshots: Snapshots | None,
    chosen: Int64Array,
    securities: Int64Array,
    base: int,
) -> list[StatisticColumns]:
    """Return the statistics of chosen snapshots, at the message serials that they are as of."""
    parts: list[StatisticColumns] = []
    for template in (LAST_TRADE_PRICE, EXECUTION_STATISTICS):
        shown = others.of_snapshots(template, snapshots, chosen)
        if shown is not None and snapshots is not None:
            rows, owner = shown
            parts += statistics_of(
                {template: rows}, securities, base, snapshots.message_serial[owner]
            )
    return parts


def _statistics(
    rows: MessageColumns,
    securities: Int64Array,
    base: int,
    kind: Uint8Array,
    value: Int64Array,
    order: Int64Array,
    message_serial: Int64Array | None,
    kept: Int64Array,
) -> StatisticColumns:
    serial = message_serials(rows, base) if message_serial is None else message_serial
    event = rows.numbers("event", -1)
    rank = np.searchsorted(securities, rows.numbers("security_id"))
    return StatisticColumns(
        rank[kept], serial[kept], event[kept], kind[kept], value[kept], order[kept]
    )


@dataclass(slots=True)
class PhaseChanges:
    """Changes of phases or states of instruments, by instrument and message serial."""

    rank: Int64Array
    message_serial: Int64Array
    event: Int64Array
    session: Uint8Array
    """Whether a new trading session begins, which restarts the statistics."""

    @staticmethod
    def from_messages(
        statuses: MessageColumns | None,
        phases: Sequence[MessageColumns],
        securities: Int64Array,
        groups: Sequence[str | None],
        base: int,
    ) -> PhaseChanges:
        """Derive changes from the states of instruments and the phases of their groups.

        All are from the incremental stream.
        """
        ranks, serials, events, sessions = [], [], [], []
        if statuses is not None:
            ranks.append(np.searchsorted(securities, statuses.numbers("security_id")))
            serials.append(message_serials(statuses, base))
            events.append(statuses.numbers("event"))
            sessions.append(statuses.codes("security_trading_event", _SESSION_CHANGE, 0))
        members: dict[str, list[int]] = {}
        for member, group in enumerate(groups):
            if group is not None:
                members.setdefault(group, []).append(member)
        for rows in phases:
            own = [
                np.array(members.get(group or "", ()), np.int64)
                for group in rows.texts("security_group")
            ]
            counts = np.array([len(ranks_) for ranks_ in own], np.int64)
            if counts.sum():
                ranks.append(np.concatenate(own))
                serials.append(np.repeat(message_serials(rows, base), counts))
                events.append(np.repeat(rows.numbers("event"), counts))
                session = rows.codes("security_trading_event", _SESSION_CHANGE, 0)
                sessions.append(np.repeat(session, counts))
        if not ranks:
            empty = np.empty(0, np.int64)
            return PhaseChanges(empty, empty, empty, np.empty(0, np.uint8))
        rank, serial, event = (np.concatenate(parts) for parts in (ranks, serials, events))
        order = np.lexsort((serial, rank))
        session = np.concatenate(sessions)[order]
        return PhaseChanges(rank[order], serial[order], event[order], session)

    def statistics(self) -> StatisticColumns:
        """Return the effect of new sessions on the statistics."""
        new = np.flatnonzero(self.session)
        none = np.full(len(new), NULL, np.int64)
        kind = np.full(len(new), _kernels.SESSION, np.uint8)
        return StatisticColumns(
            self.rank[new], self.message_serial[new], self.event[new], kind, none, none
        )


class PriceLimits:
    """Price limits in force; limits that are not given as prices are ignored."""

    def __init__(
        self,
        others: OtherMessages,
        snapshots: Snapshots | None,
        loaded: Int64Array,
        securities: Int64Array,
        base: int,
    ) -> None:
        self._kinds: list[tuple[Int64Array, Int64Array, Int64Array, Int64Array]] = []
        parts = []
        for template in sorted(PRICE_BANDS):
            rows = others.incremental.get(template)
            if rows is not None:
                parts.append(_limit_rows(rows, securities, message_serials(rows, base)))
            shown = others.of_snapshots(template, snapshots, loaded)
            if shown is not None and snapshots is not None:
                parts.append(_limit_rows(shown[0], securities, snapshots.message_serial[shown[1]]))
        if not parts:
            return
        rank, serial, low, high, kind = (
            np.concatenate([part[at] for part in parts]) for at in range(5)
        )
        for limit in (*sorted(_LIMITS.values()), _OTHER_LIMITS):
            own = np.flatnonzero(kind == limit)
            if len(own):
                own = own[np.lexsort((serial[own], rank[own]))]
                self._kinds.append((rank[own], serial[own], low[own], high[own]))

    def at(self, rank: Int64Array, message_serial: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the lowest and highest allowed price at sorted message serials."""
        low, high = np.full(len(rank), NULL, np.int64), np.full(len(rank), NULL, np.int64)
        for ranks, serials, lows, highs in reversed(self._kinds):
            rows = last_before(ranks, serials, rank, message_serial)
            at, exists = np.maximum(rows, 0), rows >= 0
            low = np.where(exists, lows[at], low)
            high = np.where(exists, highs[at], high)
        return low, high


def _limit_rows(
    rows: MessageColumns, securities: Int64Array, message_serial: Int64Array
) -> tuple[Int64Array, ...]:
    unit: BoolArray = rows.codes("price_limit_type", _PRICES, 0) == 1
    kind = rows.codes("price_band_type", _LIMITS, _OTHER_LIMITS).astype(np.int64)
    auctions = rows.codes("price_band_type", _AUCTION_LIMITS, 0) == 1
    kept = np.flatnonzero(unit & ~auctions)
    return (
        np.searchsorted(securities, rows.numbers("security_id"))[kept],
        message_serial[kept],
        rows.numbers("low_limit_price")[kept],
        rows.numbers("high_limit_price")[kept],
        kind[kept],
    )
