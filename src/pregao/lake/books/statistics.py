"""The audit's second half: the figures of snapshots against the last ones that were published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.books import _kernels
from pregao.lake.books.columns import Flags, Numbers, checksums, codes, integers, taken
from pregao.lake.books.figures import (
    Changes,
    FigureReader,
    Figures,
    Others,
    places_in,
)
from pregao.lake.books.inputs import EXECUTION_STATISTICS, LAST_TRADE, SECURITY_STATUS
from pregao.lake.books.messages import KEY
from pregao.lake.books.snapshots import Snapshots

OPENING_PRICE, HIGH_PRICE, LOW_PRICE = 15, 24, 25
_MUST_BE_SHOWN = (OPENING_PRICE, HIGH_PRICE, LOW_PRICE, EXECUTION_STATISTICS)
"""Figures that stand until they are withdrawn, or until a new session begins."""
_KIND_COLUMNS = ("price_band_type", "open_close_settl_flag")
"""Figures of one template that stand side by side differ in one of these."""
_NOT_COMPARED = frozenset(
    [
        *KEY,
        "stream",
        "rpt_seq",
        "match_event_indicator",
        "md_update_action",
        "security_trading_event",
    ]
)
_DELETED = {"DELETE": 1}
_KINDS = 1 << 33
"""More than two checksums come to."""


@dataclass(slots=True)
class FigureAudit:
    """Compares the figures of snapshots; all that it needs is given."""

    others: Others
    snapshots: Snapshots
    changes: Changes
    securities: Numbers
    base: int
    from_the_start: bool

    def differences(
        self, audited: Numbers, loaded: Numbers, figures: Figures
    ) -> dict[int, list[str]]:
        """By snapshot: how its figures differ from what was published up to it.

        ``loaded`` are the snapshots with which books began or were healed: what they say counts
        as published. ``figures`` tell the last price.
        """
        found: dict[int, list[str]] = {}
        for template in sorted({*self.others.snapshot, *_MUST_BE_SHOWN}):
            if template == LAST_TRADE:
                self._last_trade(audited, figures, found)
            else:
                self._template(template, audited, loaded, found)
        return found

    def _rank(self, rows: Any) -> Numbers:
        return np.searchsorted(self.securities, integers(rows.column("security_id")))

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

    def _published(self, template: int, loaded: Numbers) -> tuple[Any, Numbers, Numbers] | None:
        """What was published: rows, each one's instrument and kind as one number, and place."""
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
        whole = pa.concat_tables(tables)
        place = np.concatenate(places)
        label = self._label(whole)
        order = np.lexsort((place, label))
        return taken(whole, order), label[order], place[order]

    def _label(self, rows: Any) -> Numbers:
        """Instrument and kind of figure as one number."""
        label = self._rank(rows) * _KINDS
        for name in _KIND_COLUMNS:
            if name in rows.column_names:
                label += checksums(rows.column(name))
        return label

    def _compare(
        self,
        template: int,
        name: str,
        published: tuple[Any, Numbers, Numbers],
        rows: Any,
        owner: Numbers,
        found: dict[int, list[str]],
    ) -> None:
        known, labels, places = published
        label, place = self._label(rows), self.snapshots.place[owner]
        order = np.lexsort((place, label))
        at = np.empty(len(order), np.int64)
        _kernels.last_before(labels, places, label[order], place[order], at)
        rows, owner = taken(rows, order), owner[order]
        alone = np.flatnonzero(at < 0)
        if len(alone):
            self._only_shown(template, owner[alone], found)
        both = np.flatnonzero(at >= 0)
        theirs, mine = taken(rows, both), taken(known, at[both])
        owner = owner[both]
        if "md_update_action" in mine.column_names:
            gone = codes(mine.column("md_update_action"), _DELETED, 0) == 1
            for which in np.flatnonzero(gone).tolist():
                _say(found, owner[which], f"{name} was withdrawn, and the snapshot shows it")
            kept = np.flatnonzero(~gone)
            theirs, mine, owner = taken(theirs, kept), taken(mine, kept), owner[kept]
        for column in theirs.column_names:
            if column in _NOT_COMPARED or column.endswith("_ns"):
                continue
            if template == SECURITY_STATUS and column != "security_trading_status":
                continue
            one, other = _plain(mine.column(column)), _plain(theirs.column(column))
            unlike = _unlike(one, other)
            if template == SECURITY_STATUS:
                # Without a state of its own an instrument shows what its group does.
                unlike &= ~other.is_null().to_numpy(zero_copy_only=False)
            for which in np.flatnonzero(unlike).tolist():
                text = f"{name} {column} {one[which].as_py()} instead of {other[which].as_py()}"
                _say(found, owner[which], text)

    def _only_shown(self, template: int, owner: Numbers, found: dict[int, list[str]]) -> None:
        """Figures that were never published: of who joins late they may be from before."""
        if not self.from_the_start or template == SECURITY_STATUS:
            return
        for snapshot in owner.tolist():
            _say(found, snapshot, f"{self.others.names[template]} is in the snapshot only")

    def _missing(
        self,
        name: str,
        published: tuple[Any, Numbers, Numbers],
        without: Numbers,
        found: dict[int, list[str]],
    ) -> None:
        """Figures that were published, stand, and are not shown."""
        known, labels, places = published
        rank = np.searchsorted(self.securities, self.snapshots.security[without])
        place = self.snapshots.place[without]
        order = np.lexsort((place, rank))
        rank, place, without = rank[order], place[order], without[order]
        at, session = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        _kernels.last_before(labels // _KINDS, places, rank, place, at)
        new = np.flatnonzero(self.changes.session)
        _kernels.last_before(self.changes.rank[new], self.changes.place[new], rank, place, session)
        begun = np.append(self.changes.place[new], -1)[session]
        stands = (at >= 0) & (np.append(places, -1)[at] > begun)
        if "md_update_action" in known.column_names:
            gone = codes(known.column("md_update_action"), _DELETED, 0) == 1
            stands &= ~np.append(gone, False)[at]
        for which in np.flatnonzero(stands).tolist():
            _say(found, without[which], f"{name} is missing in the snapshot")

    def _last_trade(self, audited: Numbers, figures: Figures, found: dict[int, list[str]]) -> None:
        """The last price of snapshots against that of the trades up to them."""
        shown = self.others.of_snapshots(LAST_TRADE, self.snapshots, audited)
        if shown is None:
            return
        rows, owner = shown
        rank, place = self._rank(rows), self.snapshots.place[owner]
        order = np.lexsort((place, rank))
        reader = FigureReader()
        reader.load(figures)
        price, _ = reader.at(rank[order], place[order], np.full(len(order), -2, np.int64))
        theirs = integers(rows.column("md_entry_px"))[order]
        known = price != np.iinfo(np.int64).min
        wrong = (price != theirs) & (known | self.from_the_start)
        for which in np.flatnonzero(wrong).tolist():
            mine = f"{price[which] / 10_000:.4f}" if known[which] else "none"
            text = f"LastTradePrice_27 {mine} instead of {theirs[which] / 10_000:.4f}"
            _say(found, owner[order[which]], text)


def _say(found: dict[int, list[str]], snapshot: Any, text: str) -> None:
    found.setdefault(int(snapshot), []).append(text)


def _plain(column: Any) -> Any:
    """A column that can be compared: names as texts, in one piece."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _unlike(one: Any, other: Any) -> Flags:
    """Where two columns differ; null is like null alone."""
    same = pc.fill_null(pc.equal(one, other), False)
    same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
    unlike: Flags = ~same.to_numpy(zero_copy_only=False)
    return unlike
