"""Daily schedule: the times at which each group changes its phase.

A schedule is TOML or JSON: ``timezone`` (hours from UTC, default -3) and for each group, or for the
``default`` of all others, a list of entries::

    [[schedule.default]]
    time = "10:00:00"
    phase = "OPEN"
    session = "REGULAR"       # or NON_REGULAR: the after-market
    new_session = true        # resets statistics
    auction = { extension = 30, window = 60 }   # how auctions of the phase end: `auction_rules`

Times of a group must increase. An auction's estimated end is the time of the next entry.

Operations are commands of market operations at a time of day, with the fields of their control
requests, which the exchange checks::

    [[operation]]
    time = "18:30:00"
    command = "settlement"
    symbol = "DOLM26"
    price = 5012.5
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pregao.clock import DAY, HOUR, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.model.enums import TradingSession, TradingStatus
from pregao.exchange.engine.model.instruments import Instrument, SecurityType
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.safe_io.documents import read_tables
from pregao.units import MARKET_OFFSET_NS, midnight_ns

DEFAULT = "default"
"""Name of the entries for groups without their own."""

PHASE_NAMES: Mapping[str, TradingStatus] = {
    phase.name: phase for phase in TradingStatus if phase != TradingStatus.UNKNOWN_OR_INVALID
} | {"PRE_OPEN": TradingStatus.RESERVED, "PRE_CLOSE": TradingStatus.FORBIDDEN}
"""Phases by name; those that schema version 17 renamed by both names."""
_AUCTIONS = (TradingStatus.RESERVED, TradingStatus.FINAL_CLOSING_CALL)
_FIELDS = frozenset({"time", "phase", "session", "new_session", "auction"})


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A change of phase at a time of day (nanoseconds since local midnight)."""

    time_ns: int
    phase: TradingStatus
    session: TradingSession = TradingSession.REGULAR
    new_session: bool = False
    auction: AuctionRules | None = None


@dataclass(frozen=True, slots=True)
class ScheduledOperation:
    """A command of market operations at a time of day: its control request, not yet checked."""

    time_ns: int
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Entries of each group, those of all others under ``default``, and operations."""

    groups: Mapping[str, tuple[ScheduleEntry, ...]]
    utc_offset_ns: int = MARKET_OFFSET_NS
    operations: tuple[ScheduledOperation, ...] = ()

    def entries(self, group: str) -> tuple[ScheduleEntry, ...]:
        """Return the entries of a group."""
        return self.groups.get(group, self.groups.get(DEFAULT, ()))

    def commands(self, groups: Iterable[str], trade_date: date) -> list[tuple[int, SetGroupPhase]]:
        """Return the day's commands with their times, in the order in which they are due."""
        start = self._midnight_ns(trade_date)
        due = []
        for group in groups:
            entries = self.entries(group)
            for entry, following in zip(entries, [*entries[1:], None], strict=True):
                end = None
                if entry.phase == TradingStatus.RESERVED and following is not None:
                    end = start + following.time_ns
                command = SetGroupPhase(
                    group, entry.phase, entry.session, entry.new_session, end, entry.auction
                )
                due.append((start + entry.time_ns, command))
        due.sort(key=lambda timed: timed[0])
        return due

    def requests(self, trade_date: date) -> list[tuple[int, Mapping[str, Any]]]:
        """Return the control requests of the day's operations with their times, in order."""
        start = self._midnight_ns(trade_date)
        due = [(start + each.time_ns, each.request) for each in self.operations]
        due.sort(key=lambda timed: timed[0])
        return due

    def _midnight_ns(self, trade_date: date) -> int:
        return midnight_ns(trade_date) - self.utc_offset_ns


def _day(
    *entries: tuple[str, TradingStatus], after_market: str | None = None
) -> tuple[ScheduleEntry, ...]:
    """Return a day's entries; the session is non-regular from the after-market's first entry on."""
    result = []
    session = TradingSession.REGULAR
    for index, (time, phase) in enumerate(entries):
        if time == after_market:
            session = TradingSession.NON_REGULAR
        result.append(ScheduleEntry(_time_of_day(time), phase, session, index == 0))
    return tuple(result)


def _time_of_day(text: str) -> int:
    """Parse 10:00 or 10:00:00 as nanoseconds since midnight."""
    found = re.fullmatch(r"(\d{2}):(\d{2})(?::(\d{2}))?", text)
    if found is None or not (int(found[1]) < 24 and int(found[2]) < 60 and int(found[3] or 0) < 60):
        raise ValueError(f"must be a time of day such as 10:00 or 10:00:00, was {text!r}")
    return int(found[1]) * HOUR + int(found[2]) * MINUTE + int(found[3] or 0) * SECOND


CASH_DAY = _day(
    ("09:00", TradingStatus.CLOSE),
    ("09:45", TradingStatus.RESERVED),
    ("10:00", TradingStatus.OPEN),
    ("16:55", TradingStatus.FINAL_CLOSING_CALL),
    ("17:00", TradingStatus.CLOSE),
    ("17:25", TradingStatus.RESERVED),
    ("17:30", TradingStatus.OPEN),
    ("18:00", TradingStatus.CLOSE),
    after_market="17:25",
)
"""Shares and similar: opening auction, continuous trading, closing call, after-market."""

DERIVATIVES_DAY = _day(
    ("08:00", TradingStatus.CLOSE),
    ("08:55", TradingStatus.RESERVED),
    ("09:00", TradingStatus.OPEN),
    ("18:25", TradingStatus.FORBIDDEN),
    ("18:30", TradingStatus.CLOSE),
)
"""Futures and similar: opening auction, continuous trading, pre-close."""

OPTIONS_DAY = _day(
    ("09:00", TradingStatus.CLOSE),
    ("09:45", TradingStatus.RESERVED),
    ("10:00", TradingStatus.OPEN),
    ("16:55", TradingStatus.FORBIDDEN),
    ("17:00", TradingStatus.CLOSE),
)
"""Options on shares: as shares, without closing call and after-market."""

FORWARD_DAY = _day(
    ("09:00", TradingStatus.CLOSE),
    ("10:00", TradingStatus.OPEN),
    ("17:25", TradingStatus.FORBIDDEN),
    ("18:00", TradingStatus.CLOSE),
)
"""Forwards: closed, open with the underlying, forbidden (003 §15.3.5)."""

_CASH = frozenset({SecurityType.CS, SecurityType.PS, SecurityType.ETF, SecurityType.CASH})
_EQUITY_OPTIONS = frozenset({SecurityType.OPT, SecurityType.INDEXOPT})


def default_schedule(instruments: Iterable[Instrument]) -> Schedule:
    """Return the usual day of each group, from the types of its instruments."""
    groups: dict[str, tuple[ScheduleEntry, ...]] = {}
    for instrument in instruments:
        if instrument.security_type in _CASH:
            day = CASH_DAY
        elif instrument.is_forward:
            day = FORWARD_DAY
        elif instrument.security_type in _EQUITY_OPTIONS:
            day = OPTIONS_DAY
        else:
            day = DERIVATIVES_DAY
        groups.setdefault(instrument.security_group, day)
    return Schedule(groups)


def load_schedule(path: Path) -> Schedule:
    """Load a schedule file: JSON if its name ends in ``.json``, else TOML."""
    return parse_schedule(read_tables(path, decimals=True), str(path))


def parse_schedule(document: Mapping[str, Any], source: str) -> Schedule:
    """Parse a schedule from a document, checking every entry."""
    unknown = set(document) - {"operation", "schedule", "timezone"}
    if unknown:
        raise UsageError(
            f"{source}: unknown key {sorted(unknown)[0]!r}; choose from operation, schedule, "
            "timezone"
        )
    zone = document.get("timezone", -3)
    if isinstance(zone, bool) or not isinstance(zone, int) or not -12 <= zone <= 14:
        raise UsageError(
            f"{source}: timezone must be an integer of hours from UTC, -12 to 14, was {zone!r}"
        )
    tables = document.get("schedule")
    if not isinstance(tables, dict) or not tables:
        raise UsageError(
            f"{source}: schedule must have lists of entries such as [[schedule.default]]"
        )
    groups = {group: _group_day(rows, group, source) for group, rows in tables.items()}
    return Schedule(groups, zone * HOUR, _operations(document.get("operation", []), source))


def _operations(rows: object, source: str) -> tuple[ScheduledOperation, ...]:
    """Parse the operations; their commands and fields are checked by the exchange."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{source}: operation must have tables such as [[operation]]")
    found = []
    for number, row in enumerate(rows, 1):
        try:
            time_ns = _time_of_day(str(row.get("time")))
        except ValueError as fault:
            raise UsageError(f"{source}: operation {number}, field time: {fault}") from fault
        request = {name: _plain(value) for name, value in row.items() if name != "time"}
        found.append(ScheduledOperation(time_ns, request))
    return tuple(found)


def _plain(value: Any) -> Any:
    """Return a value of a document as JSON has it."""
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _group_day(rows: object, group: str, source: str) -> tuple[ScheduleEntry, ...]:
    """Parse the entries of one group; their times must increase."""
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{source}: group {group} must have a list of entries")
    entries: list[ScheduleEntry] = []
    for number, row in enumerate(rows, 1):
        where = f"{source}: group {group}, entry {number}"
        entry = _entry(row, where)
        if entries and entry.time_ns <= entries[-1].time_ns:
            raise UsageError(
                f"{where}: times must increase, {_shown(entry.time_ns)} comes after "
                f"{_shown(entries[-1].time_ns)}"
            )
        entries.append(entry)
    return tuple(entries)


def _entry(row: object, where: str) -> ScheduleEntry:
    """Parse one entry."""
    if not isinstance(row, dict):
        raise UsageError(f"{where}: an entry must be a table with a time and a phase")
    unknown = set(row) - _FIELDS
    if unknown:
        raise UsageError(
            f"{where}: unknown field {sorted(unknown)[0]!r}; "
            f"choose from {', '.join(sorted(_FIELDS))}"
        )
    time, phase = row.get("time"), row.get("phase")
    try:
        time_ns = _time_of_day(str(time))
    except ValueError as fault:
        raise UsageError(f"{where}, field time: {fault}") from fault
    if not isinstance(phase, str) or phase not in PHASE_NAMES:
        raise UsageError(
            f"{where}, field phase: must be one of {', '.join(PHASE_NAMES)}, was {phase!r}"
        )
    session = row.get("session", TradingSession.REGULAR.name)
    if not isinstance(session, str) or session not in TradingSession.__members__:
        known = ", ".join(TradingSession.__members__)
        raise UsageError(f"{where}, field session: must be one of {known}, was {session!r}")
    new_session = row.get("new_session", False)
    if not isinstance(new_session, bool):
        raise UsageError(f"{where}, field new_session: must be true or false, was {new_session!r}")
    rules = None
    if "auction" in row:
        if PHASE_NAMES[phase] not in _AUCTIONS:
            raise UsageError(f"{where}, field auction: {phase} is not an auction phase")
        try:
            rules = parse_auction_rules(row["auction"])
        except ValueError as fault:
            raise UsageError(f"{where}, field auction: {fault}") from fault
    return ScheduleEntry(time_ns, PHASE_NAMES[phase], TradingSession[session], new_session, rules)


def _shown(time_ns: int) -> str:
    """Return a time of day as text."""
    return str(timedelta(microseconds=time_ns % DAY // 1000))
