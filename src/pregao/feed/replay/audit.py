"""Audit of a replay: compares every snapshot's book and statistics with the rebuilt ones.

Books are compared with the book rebuilt up to the snapshot, statistics with the last ones
published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.audit import compare_books
from pregao.book.replay import FullBook
from pregao.book.state import State
from pregao.book.update_rows import NULL
from pregao.feed.columns import ComparedColumns
from pregao.feed.messages import KEY
from pregao.feed.packet_keys import message_serials
from pregao.feed.replay.snapshots import Snapshots
from pregao.feed.replay.statistics import (
    OtherMessages,
    PhaseChanges,
    StatisticColumns,
    StatisticReader,
    last_before,
)
from pregao.umdf.templates import (
    DELETED,
    EXECUTION_STATISTICS,
    HIGH_PRICE,
    LAST_TRADE_PRICE,
    LOW_PRICE,
    OPENING_PRICE,
    SECURITY_STATUS,
)
from pregao.units import Side, price_text

MAX_DIFFERENCES = 5
"""Maximum number of differences listed in the detail."""

_COLUMNS = ("order_id", "price", "size", "side", "firm", "inserted", "implied")

EQUAL, DIFFERENT, GAP, START, INCOMPLETE, VOID = range(6)
RESULTS: list[str | None] = ["equal", "different", "gap", "start", "incomplete", "void"]

_MUST_BE_SHOWN = (OPENING_PRICE, HIGH_PRICE, LOW_PRICE, EXECUTION_STATISTICS)
"""Statistics that stay in effect until they are withdrawn or a new session begins."""
_FLAG = "open_close_settl_flag"
_KIND_COLUMNS = ("price_band_type", _FLAG)
"""Coexisting statistics of one template differ in one of these columns."""
_DATE = "settl_date"
"""Where the flag of a settlement price is null, it differs in its date."""
_NOT_COMPARED = frozenset(
    [
        *KEY,
        "stream",
        "schema_version",
        "rpt_seq",
        "match_event_indicator",
        "md_update_action",
        "security_trading_event",
    ]
)
_Published = tuple[ComparedColumns, Int64Array, Int64Array]
_DELETED = dict.fromkeys(DELETED, 1)
_KIND_FACTOR = 1 << 33
"""Exceeds the sum of two checksums."""


# --- Books ---


def no_book(*, of_levels: bool = False) -> FullBook:
    """Return the book of an instrument without messages."""
    codes, numbers = np.empty(0, np.uint8), np.empty(0, np.int64)
    book = FullBook(-1, State.EMPTY, codes, numbers, numbers, numbers, numbers, numbers, codes)
    return book.with_levels(numbers) if of_levels else book


@dataclass(slots=True)
class Audit:
    """Result of the comparison of each snapshot."""

    result: list[int]
    differences: list[int]
    detail: list[str | None]

    @staticmethod
    def from_snapshots(snapshots: Snapshots) -> Audit:
        """Create an audit without comparisons; void and incomplete snapshots are marked."""
        audit = Audit([INCOMPLETE] * len(snapshots), [0] * len(snapshots), [None] * len(snapshots))
        void = snapshots.void()
        for at in range(len(snapshots)):
            if void[at]:
                audit.result[at] = VOID
            elif not snapshots.complete[at]:
                audit.detail[at] = "parts of the snapshot are missing"
        return audit

    def put(self, at: int, result: int, detail: str | None) -> None:
        """Set the result of a snapshot that was not compared."""
        self.result[at] = result
        self.detail[at] = detail

    def compare(
        self, at: int, rebuilt: FullBook, snapshot: FullBook, statistics: list[str]
    ) -> None:
        """Compare a snapshot with the rebuilt book; ``statistics`` are further differences."""
        differences = []
        if not _same(rebuilt, snapshot):
            differences = [str(difference) for difference in compare_books(rebuilt, snapshot)]
        if rebuilt.state is State.STALE:
            differences.insert(0, "the book is stale")
        self.differ(at, [*differences, *statistics])

    def differ(self, at: int, found: list[str]) -> None:
        """Record the differences of a snapshot, which may be none."""
        self.result[at] = DIFFERENT if found else EQUAL
        self.differences[at] = len(found)
        if found:
            more = (
                [f"… and {len(found) - MAX_DIFFERENCES} more"]
                if len(found) > MAX_DIFFERENCES
                else []
            )
            self.detail[at] = "; ".join([*found[:MAX_DIFFERENCES], *more])


def _same(one: FullBook, other: FullBook) -> bool:
    """Whether two books are equal byte for byte: a fast check that is usually enough."""
    if one.of_levels or other.of_levels:
        return all(one.levels(side) == other.levels(side) for side in Side)
    return len(one) == len(other) and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in _COLUMNS
    )


# --- Statistics ---


@dataclass(slots=True)
class StatisticAudit:
    """Compares the statistics of snapshots with those published."""

    others: OtherMessages
    snapshots: Snapshots
    changes: PhaseChanges
    securities: Int64Array
    base: int
    from_the_start: bool
    marks_trades: bool = True
    """Whether trades determine the last price."""
    _known: dict[int, tuple[bytes, _Published | None]] = field(default_factory=dict, repr=False)
    """Cache by template: the published statistics, and the loaded snapshots they include."""

    def differences(
        self, audited: Int64Array, loaded: Int64Array, statistics: StatisticColumns
    ) -> dict[int, list[str]]:
        """Return by snapshot how its statistics differ from those published up to it.

        ``loaded`` are the snapshots with which books began or were healed: their statistics count
        as published. ``statistics`` provide the last price.
        """
        by_snapshot: dict[int, list[str]] = {}
        for template in sorted({*self.others.snapshot, *_MUST_BE_SHOWN}):
            if template == LAST_TRADE_PRICE:
                if self.marks_trades:
                    self._last_trade(audited, statistics, by_snapshot)
            else:
                self._template(template, audited, loaded, by_snapshot)
        return by_snapshot

    def _rank(self, rows: ComparedColumns) -> Int64Array:
        return np.searchsorted(self.securities, rows.numbers("security_id"))

    def _template(
        self, template: int, audited: Int64Array, loaded: Int64Array, found: dict[int, list[str]]
    ) -> None:
        name = self.others.names.get(template, str(template))
        published = self._published(template, loaded)
        shown = self.others.of_snapshots(template, self.snapshots, audited)
        if shown is not None:
            rows, owner = shown
            if published is None:
                self._only_shown(template, owner, found)
            else:
                self._compare(template, name, published, rows, owner, found)
        if published is not None and template in _MUST_BE_SHOWN:
            owner = np.empty(0, np.int64) if shown is None else shown[1]
            self._missing(name, published, np.setdiff1d(audited, owner), found)

    def _published(self, template: int, loaded: Int64Array) -> _Published | None:
        """Return the published rows, the label of each (instrument and kind), and its serial."""
        # Consecutive windows of a day nearly always have the same loaded snapshots.
        loaded_key = loaded.tobytes()
        cached = self._known.get(template)
        if cached is None or cached[0] != loaded_key:
            cached = self._known[template] = (loaded_key, self._found(template, loaded))
        return cached[1]

    def _found(self, template: int, loaded: Int64Array) -> _Published | None:
        tables, serials = [], []
        rows = self.others.incremental.get(template)
        if rows is not None:
            tables.append(rows)
            serials.append(message_serials(rows, self.base))
        shown = self.others.of_snapshots(template, self.snapshots, loaded)
        if shown is not None:
            tables.append(shown[0])
            serials.append(self.snapshots.message_serial[shown[1]])
        if not tables:
            return None
        joined = tables[0] if len(tables) == 1 else tables[0].followed_by(tables[1])
        serial = np.concatenate(serials)
        label = self._label(joined)
        order = np.lexsort((serial, label))
        return joined.take(order), label[order], serial[order]

    def _label(self, rows: ComparedColumns) -> Int64Array:
        """Return instrument and kind of statistic as one number."""
        label = self._rank(rows) * _KIND_FACTOR
        for name in _KIND_COLUMNS:
            if name in rows.names:
                label += rows.labels(name)
        if _DATE in rows.names:
            label += np.where(rows.nulls(_FLAG), rows.numbers(_DATE, 0), 0)
        return label

    def _compare(
        self,
        template: int,
        name: str,
        published: _Published,
        rows: ComparedColumns,
        owner: Int64Array,
        found: dict[int, list[str]],
    ) -> None:
        published_rows, labels, serials = published
        label, serial = self._label(rows), self.snapshots.message_serial[owner]
        order = np.lexsort((serial, label))
        at = last_before(labels, serials, label[order], serial[order])
        owner = owner[order]
        alone = np.flatnonzero(at < 0)
        if len(alone):
            self._only_shown(template, owner[alone], found)
        both = np.flatnonzero(at >= 0)
        theirs, mine = rows.take(order[both]), published_rows.take(at[both])
        owner = owner[both]
        if "md_update_action" in mine.names:
            withdrawn = mine.codes("md_update_action", _DELETED, 0) == 1
            for row in np.flatnonzero(withdrawn).tolist():
                _describe(found, owner[row], f"{name} was withdrawn, but the snapshot contains it")
            if withdrawn.any():
                kept = np.flatnonzero(~withdrawn)
                theirs, mine, owner = theirs.take(kept), mine.take(kept), owner[kept]
        for column in theirs.names:
            if column in _NOT_COMPARED or column.endswith("_ns"):
                continue
            if template == SECURITY_STATUS and column != "security_trading_status":
                continue
            unlike = mine.unlike(column, theirs)
            if template == SECURITY_STATUS:
                # An instrument without its own state shows that of its group.
                unlike &= ~theirs.nulls(column)
            for row in np.flatnonzero(unlike).tolist():
                one, other = mine.value(column, row), theirs.value(column, row)
                _describe(found, owner[row], f"{name} {column} {one} instead of {other}")

    def _only_shown(self, template: int, owner: Int64Array, found: dict[int, list[str]]) -> None:
        """Report statistics that were never published, unless they may precede the captures."""
        if not self.from_the_start or template == SECURITY_STATUS:
            return
        for snapshot in owner.tolist():
            _describe(found, snapshot, f"{self.others.names[template]} is in the snapshot only")

    def _missing(
        self,
        name: str,
        published: _Published,
        without: Int64Array,
        found: dict[int, list[str]],
    ) -> None:
        """Report statistics that were published and are in effect, but are not in the snapshot."""
        published_rows, labels, serials = published
        rank = np.searchsorted(self.securities, self.snapshots.security[without])
        serial = self.snapshots.message_serial[without]
        order = np.lexsort((serial, rank))
        rank, serial, without = rank[order], serial[order], without[order]
        at = last_before(labels // _KIND_FACTOR, serials, rank, serial)
        new = np.flatnonzero(self.changes.session)
        session = last_before(
            self.changes.rank[new], self.changes.message_serial[new], rank, serial
        )
        session_start = np.append(self.changes.message_serial[new], -1)[session]
        in_effect = (at >= 0) & (np.append(serials, -1)[at] > session_start)
        if "md_update_action" in published_rows.names:
            withdrawn = published_rows.codes("md_update_action", _DELETED, 0) == 1
            in_effect &= ~np.append(withdrawn, False)[at]
        for row in np.flatnonzero(in_effect).tolist():
            _describe(found, without[row], f"{name} is missing in the snapshot")

    def _last_trade(
        self, audited: Int64Array, statistics: StatisticColumns, found: dict[int, list[str]]
    ) -> None:
        """Compare the last price of snapshots with that of the trades up to them."""
        shown = self.others.of_snapshots(LAST_TRADE_PRICE, self.snapshots, audited)
        if shown is None:
            return
        rows, owner = shown
        rank, serial = self._rank(rows), self.snapshots.message_serial[owner]
        order = np.lexsort((serial, rank))
        reader = StatisticReader()
        reader.load(statistics)
        price, _ = reader.at(rank[order], serial[order])
        theirs = rows.numbers("md_entry_px")[order]
        known = price != NULL
        wrong = (price != theirs) & (known | self.from_the_start)
        for row in np.flatnonzero(wrong).tolist():
            mine = _price(price[row]) if known[row] else "none"
            name = self.others.names[LAST_TRADE_PRICE]
            text = f"{name} {mine} instead of {_price(theirs[row])}"
            _describe(found, owner[order[row]], text)


def _describe(found: dict[int, list[str]], snapshot: Any, text: str) -> None:
    found.setdefault(int(snapshot), []).append(text)


def _price(mantissa: Any) -> str:
    return price_text(int(mantissa))
