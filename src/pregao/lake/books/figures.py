"""Figures beside the book: last price, volume, limits and phases, as messages tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.book.rows import NULL
from pregao.lake.books import _kernels
from pregao.lake.books.columns import Codes, Numbers, codes, integers, taken
from pregao.lake.books.inputs import (
    EXECUTION_STATISTICS,
    FORWARD_TRADE,
    GROUP_PHASE,
    INSTRUMENTS,
    LAST_TRADE,
    SECURITY_STATUS,
    TRADE,
    Part,
    Reader,
    serial_of,
)
from pregao.lake.books.messages import KEY, of_stream, place_of
from pregao.lake.books.snapshots import LoopRows, Snapshots, owners
from pregao.lake.store import DATE
from pregao.umdf.streams import Stream

PRICE_BANDS = (20, 22)
_OUT_OF_SEQUENCE = 1 << 3
_LEG_TRADE = "LEG_TRADE"
_SESSION_CHANGE = {"TRADING_SESSION_CHANGE": 1}
_BANDS = {"HARD_LIMIT": 0, "REJECTION_BAND": 1, "STATIC_LIMITS": 2, "": 3}
"""Kinds of price limits; of several that are in force, the first here is shown."""
_NOT_READ = frozenset({DATE, "channel", "feed", "feed_difference_ns", "capture_id"})
_TRADE_COLUMNS = ("md_entry_px", "trade_condition", "trd_sub_type", "trade_id", "trade_date")


@dataclass(slots=True)
class Others:
    """The messages about some instruments that change no book, by template and stream."""

    incremental: dict[int, Any]
    snapshot: dict[int, Any]
    names: dict[int, str]
    """The names of the templates, as their tables have them."""

    def loop_rows(self) -> LoopRows:
        """Where all figures of the snapshot stream stand."""
        parts = [LoopRows.of(rows) for rows in self.snapshot.values()]
        return LoopRows(
            *(
                np.concatenate([getattr(part, name) for part in parts] or [np.empty(0, np.int64)])
                for name in ("security", "version", "number", "index", "sending")
            )
        )

    def of_snapshots(
        self, template: int, snapshots: Snapshots | None, chosen: Numbers
    ) -> tuple[Any, Numbers] | None:
        """The figures of a template in chosen snapshots, and whose they are; None without any."""
        rows = self.snapshot.get(template)
        if rows is None or snapshots is None or not len(chosen):
            return None
        owner = owners(snapshots.loop, LoopRows.of(rows))
        own = np.flatnonzero(np.isin(owner, chosen))
        return (taken(rows, own), owner[own]) if len(own) else None


def read_others(
    reader: Reader,
    part: Part,
    securities: tuple[int, ...] | None = None,
    serials: tuple[int, int, int] | None = None,
) -> Others:
    """Read them, of all instruments or some; of the snapshot stream, each row once, in order.

    With ``serials`` (see `Reader.read`) only what is incremental is read, and only there.
    """
    known = reader.inputs.tables
    names = {template: table.name.removeprefix("umdf_") for template, table in known.items()}
    others = Others({}, {}, names)
    both = reader.inputs.statistics
    for template in reader.inputs.counted:
        columns = [*KEY, "rpt_seq"]
        if template in both:
            columns += [name for name in known[template].columns if name not in _NOT_READ]
        elif template in (TRADE, FORWARD_TRADE):
            columns += _TRADE_COLUMNS
        tables = reader.read(template, list(dict.fromkeys(columns)), part, serials)
        if not tables:
            continue
        rows = pa.concat_tables(tables).unify_dictionaries()
        if securities is not None:
            own = np.isin(integers(rows.column("security_id")), securities)
            rows = taken(rows, np.flatnonzero(own))
        if template not in both:
            others.incremental[template] = rows
            continue
        told = of_stream(rows, Stream.INCREMENTAL)
        if told.num_rows:
            others.incremental[template] = told
        looped = of_stream(rows, Stream.SNAPSHOT)
        if looped.num_rows and serials is None:
            others.snapshot[template] = taken(looped, LoopRows.of(looped).order())
    return others


@dataclass(slots=True)
class Figures:
    """What sets or takes away the last price and the volume, by instrument and place."""

    rank: Numbers
    place: Numbers
    event: Numbers
    kind: Codes
    value: Numbers
    order: Numbers
    """Of a trade: its day and number, as one number."""

    def __len__(self) -> int:
        return len(self.rank)

    @staticmethod
    def joined(parts: Sequence[Figures]) -> Figures:
        """All of them, in order of instrument and place."""
        names = ("rank", "place", "event", "kind", "value", "order")
        if not parts:
            empty = np.empty(0, np.int64)
            return Figures(empty, empty, empty, np.empty(0, np.uint8), empty, empty)
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        order = np.lexsort((columns["place"], columns["rank"]))
        return Figures(**{name: column[order] for name, column in columns.items()})

    def within(self, first: int, last: int) -> Figures:
        """Those from one place to another."""
        inside = np.flatnonzero((self.place >= first) & (self.place <= last))
        return Figures(
            self.rank[inside], self.place[inside], self.event[inside],
            self.kind[inside], self.value[inside], self.order[inside],
        )  # fmt: skip


class FigureReader:
    """Tells last price and volume at places that come in order."""

    def __init__(self) -> None:
        self._state = np.full(5, NULL, np.int64)
        self._state[0] = -1
        self.figures = Figures.joined(())

    def know(self, rank: int, price: int | None, volume: int | None) -> None:
        """Begin with what is known of an instrument."""
        self._state[0] = rank
        self._state[1] = NULL if price is None else price
        self._state[3] = NULL if volume is None else volume

    def load(self, figures: Figures) -> None:
        """Go on with these figures; what was known of the last instrument still holds."""
        self.figures = figures
        self._state[4] = 0

    def at(self, rank: Numbers, place: Numbers, event: Numbers) -> tuple[Numbers, Numbers]:
        """The last price and the volume at each place, once its event is over."""
        prices, volumes = np.empty(len(rank), np.int64), np.empty(len(rank), np.int64)
        own = self.figures
        _kernels.figures_at(
            own.rank, own.place, own.event, own.kind, own.value, own.order,
            rank, place, event, self._state, prices, volumes,
        )  # fmt: skip
        return prices, volumes


def figures_of(
    tables: Mapping[int, Any], securities: Numbers, base: int, place: Numbers | None = None
) -> list[Figures]:
    """The figures among messages; ``place`` is given for those of snapshots, in template order.

    For snapshots, ``tables`` holds one template and ``place`` one place for each of its rows.
    """
    found = []
    for template in (TRADE, FORWARD_TRADE, LAST_TRADE):
        rows = tables.get(template)
        if rows is not None:
            value = integers(rows.column("md_entry_px"))
            number = integers(rows.column("trade_id"), 0)
            order = (integers(rows.column("trade_date"), 0) << 40) | number
            kind = np.full(rows.num_rows, _kernels.LAST_TRADE, np.uint8)
            kept = np.arange(rows.num_rows)
            if template != LAST_TRADE:
                kind[:] = _kernels.TRADE
                out = (integers(rows.column("trade_condition"), 0) & _OUT_OF_SEQUENCE) != 0
                leg = codes(rows.column("trd_sub_type"), {_LEG_TRADE: 1}, 0) == 1
                kept = np.flatnonzero(~out & ~leg)
            found.append(_figures(rows, securities, base, kind, value, order, place, kept))
    rows = tables.get(EXECUTION_STATISTICS)
    if rows is not None:
        none = integers(rows.column("number_of_trades")) == 0
        kind = np.where(none, _kernels.NO_VOLUME, _kernels.VOLUME).astype(np.uint8)
        value = integers(rows.column("trade_volume"))
        zero = np.zeros(rows.num_rows, np.int64)
        kept = np.arange(rows.num_rows)
        found.append(_figures(rows, securities, base, kind, value, zero, place, kept))
    return found


def told_by_snapshots(
    others: Others, snapshots: Snapshots | None, chosen: Numbers, securities: Numbers, base: int
) -> list[Figures]:
    """The figures of chosen snapshots, at the places that these hold as of."""
    parts: list[Figures] = []
    for template in (LAST_TRADE, EXECUTION_STATISTICS):
        found = others.of_snapshots(template, snapshots, chosen)
        if found is not None and snapshots is not None:
            rows, owner = found
            parts += figures_of({template: rows}, securities, base, snapshots.place[owner])
    return parts


def _figures(
    rows: Any,
    securities: Numbers,
    base: int,
    kind: Codes,
    value: Numbers,
    order: Numbers,
    place: Numbers | None,
    kept: Numbers,
) -> Figures:
    where = places_in(rows, base) if place is None else place
    event = integers(rows.column("event"), -1)
    rank = np.searchsorted(securities, integers(rows.column("security_id")))
    return Figures(rank[kept], where[kept], event[kept], kind[kept], value[kept], order[kept])


def places_in(rows: Any, base: int) -> Numbers:
    """The places of messages of the incremental stream."""
    serial = serial_of(
        integers(rows.column("sequence_version")), integers(rows.column("sequence_number"), 0), base
    )
    return place_of(serial, integers(rows.column("index_in_packet")))


@dataclass(slots=True)
class Instruments:
    """Symbols and groups of instruments, by their place among the securities of a task."""

    symbols: list[str | None]
    groups: list[str | None]


def read_instruments(reader: Reader, part: Part, securities: Numbers) -> Instruments:
    """What definitions of the day tell of the securities."""
    symbols: list[str | None] = [None] * len(securities)
    groups: list[str | None] = [None] * len(securities)
    for rows in reader.read(INSTRUMENTS, ["security_id", "symbol", "security_group"], part):
        ids = integers(rows.column("security_id"))
        ranks = np.searchsorted(securities, ids)
        names, codes_ = (rows.column(name).to_pylist() for name in ("symbol", "security_group"))
        for at, rank in enumerate(ranks.tolist()):
            if rank < len(securities) and securities[rank] == ids[at]:
                symbols[rank], groups[rank] = names[at], codes_[at]
    return Instruments(symbols, groups)


@dataclass(slots=True)
class Changes:
    """Where phases or states of instruments change, in order of instrument and place."""

    rank: Numbers
    place: Numbers
    event: Numbers
    session: Codes
    """Does a new trading session begin, with figures of its own?"""

    def figures(self) -> Figures:
        """What a new session does to the figures."""
        new = np.flatnonzero(self.session)
        none = np.full(len(new), NULL, np.int64)
        kind = np.full(len(new), _kernels.SESSION, np.uint8)
        return Figures(self.rank[new], self.place[new], self.event[new], kind, none, none)


def read_changes(
    reader: Reader, others: Others, securities: Numbers, groups: list[str | None], base: int
) -> Changes:
    """The phases of the instruments' groups and their own states."""
    ranks, places, events, sessions = [], [], [], []
    rows = others.incremental.get(SECURITY_STATUS)
    if rows is not None:
        ranks.append(np.searchsorted(securities, integers(rows.column("security_id"))))
        places.append(places_in(rows, base))
        events.append(integers(rows.column("event")))
        sessions.append(codes(rows.column("security_trading_event"), _SESSION_CHANGE, 0))
    members: dict[str, list[int]] = {}
    for member, group in enumerate(groups):
        if group is not None:
            members.setdefault(group, []).append(member)
    columns = [*KEY[1:], "stream", "security_group", "security_trading_event"]
    for found in reader.read(GROUP_PHASE, columns, None):
        rows = of_stream(found, Stream.INCREMENTAL)
        own = [np.array(members.get(group, ()), np.int64)
               for group in rows.column("security_group").to_pylist()]  # fmt: skip
        counts = np.array([len(ranks_) for ranks_ in own], np.int64)
        if counts.sum():
            ranks.append(np.concatenate(own))
            places.append(np.repeat(places_in(rows, base), counts))
            events.append(np.repeat(integers(rows.column("event")), counts))
            session = codes(rows.column("security_trading_event"), _SESSION_CHANGE, 0)
            sessions.append(np.repeat(session, counts))
    if not ranks:
        empty = np.empty(0, np.int64)
        return Changes(empty, empty, empty, np.empty(0, np.uint8))
    rank, place, event = (np.concatenate(parts) for parts in (ranks, places, events))
    order = np.lexsort((place, rank))
    return Changes(rank[order], place[order], event[order], np.concatenate(sessions)[order])


class Limits:
    """The price limits in force, as far as they are told in prices."""

    def __init__(
        self,
        others: Others,
        snapshots: Snapshots | None,
        loaded: Numbers,
        securities: Numbers,
        base: int,
    ) -> None:
        self._kinds: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        parts = []
        for template in PRICE_BANDS:
            rows = others.incremental.get(template)
            if rows is not None:
                parts.append(_limit_rows(rows, securities, places_in(rows, base)))
            found = others.of_snapshots(template, snapshots, loaded)
            if found is not None and snapshots is not None:
                parts.append(_limit_rows(found[0], securities, snapshots.place[found[1]]))
        if not parts:
            return
        rank, place, low, high, kind = (
            np.concatenate([part[at] for part in parts]) for at in range(5)
        )
        for wanted in sorted(_BANDS.values()):
            own = np.flatnonzero(kind == wanted)
            if len(own):
                own = own[np.lexsort((place[own], rank[own]))]
                self._kinds.append((rank[own], place[own], low[own], high[own]))

    def at(self, rank: Numbers, place: Numbers) -> tuple[Numbers, Numbers]:
        """The lowest and highest price at places that come in order."""
        low, high = np.full(len(rank), NULL, np.int64), np.full(len(rank), NULL, np.int64)
        for ranks, places, lows, highs in reversed(self._kinds):
            found = np.empty(len(rank), np.int64)
            _kernels.last_before(ranks, places, rank, place, found)
            at = np.maximum(found, 0)
            low = np.where(found >= 0, lows[at], low)
            high = np.where(found >= 0, highs[at], high)
        return low, high


def _limit_rows(rows: Any, securities: Numbers, place: Numbers) -> tuple[Numbers, ...]:
    unit = codes(rows.column("price_limit_type"), {"PRICE_UNIT": 1}, 0) == 1
    kind = codes(rows.column("price_band_type"), _BANDS, _BANDS[""]).astype(np.int64)
    auctions = codes(rows.column("price_band_type"), {"AUCTION_LIMITS": 1}, 0) == 1
    kept = np.flatnonzero(unit & ~auctions)
    return (
        np.searchsorted(securities, integers(rows.column("security_id")))[kept],
        place[kept],
        integers(rows.column("low_limit_price"))[kept],
        integers(rows.column("high_limit_price"))[kept],
        kind[kept],
    )
