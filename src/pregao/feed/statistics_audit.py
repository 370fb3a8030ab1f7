"""The audit's second half: the statistics of snapshots against the last ones published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pregao.book.rows import NULL
from pregao.feed.columns import ComparedColumns, Numbers
from pregao.feed.meaning import PRICE_SCALE
from pregao.feed.messages import KEY
from pregao.feed.places import places_in
from pregao.feed.snapshots import Snapshots
from pregao.feed.statistics import (
    OtherMessages,
    PhaseChanges,
    StatisticReader,
    Statistics,
    last_before,
)
from pregao.umdf.templates import (
    EXECUTION_STATISTICS,
    HIGH_PRICE,
    LAST_TRADE_PRICE,
    LOW_PRICE,
    OPENING_PRICE,
    SECURITY_STATUS,
)

_MUST_BE_SHOWN = (OPENING_PRICE, HIGH_PRICE, LOW_PRICE, EXECUTION_STATISTICS)
"""Statistics that hold until they are withdrawn, or until a new session begins."""
_KIND_COLUMNS = ("price_band_type", "open_close_settl_flag")
"""Statistics of one template that hold side by side differ in one of these."""
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
_Published = tuple[ComparedColumns, Numbers, Numbers]
_DELETED = {"DELETE": 1}
_KINDS = 1 << 33
"""More than two checksums come to."""


@dataclass(slots=True)
class StatisticAudit:
    """Compares the statistics of snapshots; all that it needs is given."""

    others: OtherMessages
    snapshots: Snapshots
    changes: PhaseChanges
    securities: Numbers
    base: int
    from_the_start: bool
    marks_trades: bool = True
    """Can the last price be known from trades?"""
    _known: dict[int, tuple[bytes, _Published | None]] = field(default_factory=dict, repr=False)
    """By template: what was published, and the snapshots with which it began."""

    def differences(
        self, audited: Numbers, loaded: Numbers, statistics: Statistics
    ) -> dict[int, list[str]]:
        """By snapshot: how its statistics differ from what was published up to it.

        ``loaded`` are the snapshots with which books began or were healed: what they say counts
        as published. ``statistics`` tell the last price.
        """
        found: dict[int, list[str]] = {}
        for template in sorted({*self.others.snapshot, *_MUST_BE_SHOWN}):
            if template == LAST_TRADE_PRICE:
                if self.marks_trades:
                    self._last_trade(audited, statistics, found)
            else:
                self._template(template, audited, loaded, found)
        return found

    def _rank(self, rows: ComparedColumns) -> Numbers:
        return np.searchsorted(self.securities, rows.numbers("security_id"))

    def _template(
        self, template: int, audited: Numbers, loaded: Numbers, found: dict[int, list[str]]
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

    def _published(self, template: int, loaded: Numbers) -> _Published | None:
        """What was published: rows, each one's instrument and kind as one number, and place."""
        # One window of a day begins with the same snapshots as the next, nearly always.
        begun = loaded.tobytes()
        known = self._known.get(template)
        if known is None or known[0] != begun:
            known = self._known[template] = (begun, self._found(template, loaded))
        return known[1]

    def _found(self, template: int, loaded: Numbers) -> _Published | None:
        tables, places = [], []
        rows = self.others.incremental.get(template)
        if rows is not None:
            tables.append(rows)
            places.append(places_in(rows, self.base))
        begun = self.others.of_snapshots(template, self.snapshots, loaded)
        if begun is not None:
            tables.append(begun[0])
            places.append(self.snapshots.place[begun[1]])
        if not tables:
            return None
        whole = tables[0] if len(tables) == 1 else tables[0].followed_by(tables[1])
        place = np.concatenate(places)
        label = self._label(whole)
        order = np.lexsort((place, label))
        return whole.taken(order), label[order], place[order]

    def _label(self, rows: ComparedColumns) -> Numbers:
        """Instrument and kind of statistic as one number."""
        label = self._rank(rows) * _KINDS
        for name in _KIND_COLUMNS:
            if name in rows.names:
                label += rows.labels(name)
        return label

    def _compare(
        self,
        template: int,
        name: str,
        published: _Published,
        rows: ComparedColumns,
        owner: Numbers,
        found: dict[int, list[str]],
    ) -> None:
        known, labels, places = published
        label, place = self._label(rows), self.snapshots.place[owner]
        order = np.lexsort((place, label))
        at = last_before(labels, places, label[order], place[order])
        owner = owner[order]
        alone = np.flatnonzero(at < 0)
        if len(alone):
            self._only_shown(template, owner[alone], found)
        both = np.flatnonzero(at >= 0)
        theirs, mine = rows.taken(order[both]), known.taken(at[both])
        owner = owner[both]
        if "md_update_action" in mine.names:
            gone = mine.codes("md_update_action", _DELETED, 0) == 1
            for which in np.flatnonzero(gone).tolist():
                _say(found, owner[which], f"{name} was withdrawn, and the snapshot shows it")
            if gone.any():
                kept = np.flatnonzero(~gone)
                theirs, mine, owner = theirs.taken(kept), mine.taken(kept), owner[kept]
        for column in theirs.names:
            if column in _NOT_COMPARED or column.endswith("_ns"):
                continue
            if template == SECURITY_STATUS and column != "security_trading_status":
                continue
            unlike = mine.unlike(column, theirs)
            if template == SECURITY_STATUS:
                # Without a state of its own an instrument shows what its group does.
                unlike &= ~theirs.nulls(column)
            for which in np.flatnonzero(unlike).tolist():
                one, other = mine.value(column, which), theirs.value(column, which)
                _say(found, owner[which], f"{name} {column} {one} instead of {other}")

    def _only_shown(self, template: int, owner: Numbers, found: dict[int, list[str]]) -> None:
        """Statistics that were never published: of who joins late they may be from before."""
        if not self.from_the_start or template == SECURITY_STATUS:
            return
        for snapshot in owner.tolist():
            _say(found, snapshot, f"{self.others.names[template]} is in the snapshot only")

    def _missing(
        self,
        name: str,
        published: _Published,
        without: Numbers,
        found: dict[int, list[str]],
    ) -> None:
        """Statistics that were published, still hold, and are not shown."""
        known, labels, places = published
        rank = np.searchsorted(self.securities, self.snapshots.security[without])
        place = self.snapshots.place[without]
        order = np.lexsort((place, rank))
        rank, place, without = rank[order], place[order], without[order]
        at = last_before(labels // _KINDS, places, rank, place)
        new = np.flatnonzero(self.changes.session)
        session = last_before(self.changes.rank[new], self.changes.place[new], rank, place)
        begun = np.append(self.changes.place[new], -1)[session]
        holds = (at >= 0) & (np.append(places, -1)[at] > begun)
        if "md_update_action" in known.names:
            gone = known.codes("md_update_action", _DELETED, 0) == 1
            holds &= ~np.append(gone, False)[at]
        for which in np.flatnonzero(holds).tolist():
            _say(found, without[which], f"{name} is missing in the snapshot")

    def _last_trade(
        self, audited: Numbers, statistics: Statistics, found: dict[int, list[str]]
    ) -> None:
        """The last price of snapshots against that of the trades up to them."""
        shown = self.others.of_snapshots(LAST_TRADE_PRICE, self.snapshots, audited)
        if shown is None:
            return
        rows, owner = shown
        rank, place = self._rank(rows), self.snapshots.place[owner]
        order = np.lexsort((place, rank))
        reader = StatisticReader()
        reader.load(statistics)
        price, _ = reader.at(rank[order], place[order])
        theirs = rows.numbers("md_entry_px")[order]
        known = price != NULL
        wrong = (price != theirs) & (known | self.from_the_start)
        for which in np.flatnonzero(wrong).tolist():
            mine = _price(price[which]) if known[which] else "none"
            name = self.others.names[LAST_TRADE_PRICE]
            text = f"{name} {mine} instead of {_price(theirs[which])}"
            _say(found, owner[order[which]], text)


def _say(found: dict[int, list[str]], snapshot: Any, text: str) -> None:
    found.setdefault(int(snapshot), []).append(text)


def _price(mantissa: Any) -> str:
    return f"{int(mantissa) / 10**PRICE_SCALE:.{PRICE_SCALE}f}"
