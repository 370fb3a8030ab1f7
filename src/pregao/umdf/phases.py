"""Phases of groups, states of instruments, trading days, and trades that set the last price.

An instrument follows the phase of its group until it gets a separate state, and again once it
rejoins. A new trading session resets the session's statistics.

The trading day of a message is the day of its packet's sending time in São Paulo. A packet without
a sending time belongs to the day of its capture.

Which trades set the last price (000 §13.3) is one rule, as data, for single trades and columns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.umdf.templates import (
    EXECUTION_STATISTICS,
    HIGH_PRICE,
    LAST_TRADE_PRICE,
    LOW_PRICE,
    OPENING_PRICE,
    OUT_OF_SEQUENCE,
    THEORETICAL_OPENING_PRICE,
    by_name,
    value_names,
)
from pregao.units import day_of

RESET_WITH_THE_SESSION = frozenset(
    {
        LAST_TRADE_PRICE,
        EXECUTION_STATISTICS,
        OPENING_PRICE,
        THEORETICAL_OPENING_PRICE,
        HIGH_PRICE,
        LOW_PRICE,
    }
)
"""Templates whose figures restart with a trading session."""

Code = int | str | None
"""A decoded enumeration value: its name, or its number if it has none, or null."""

NOT_LAST_CONDITIONS: Final = OUT_OF_SEQUENCE
"""Bits of ``tradeCondition``; a trade with any of them does not set the last price."""
_LEG_TRADE: Final = 102
NOT_LAST_SUB_TYPES: Final = value_names("TrdSubType", _LEG_TRADE)
"""Names of values of ``trdSubType`` that do not set it: legs of a spread trade."""
_NOT_LAST: Final = NOT_LAST_SUB_TYPES | {_LEG_TRADE}


# --- Phases and states ---


class TradingEvent(IntEnum):
    """Reason of a phase or state message (securityTradingEvent)."""

    TRADING_SESSION_CHANGE = 4
    SECURITY_STATUS_CHANGE = 101
    SECURITY_REJOINS_SECURITY_GROUP_STATUS = 102


class Status(Enum):
    """Trading state of an instrument."""

    PAUSE = "pause"
    CLOSE = "close"
    OPEN = "open"
    FORBIDDEN = "forbidden"
    PRE_CLOSE = "pre-close"
    """Only for groups: intervention by surveillance, running auctions continue."""
    RESERVED = "reserved"
    """An auction; for a group the phase is called pre-open."""
    FINAL_CLOSING_CALL = "final closing call"
    UNKNOWN = "unknown"


# The same number means forbidden for an instrument and pre-close for a group. Version 17 renamed
# 18 and 21 of phases, but not of states: messages and tables show either name.
_COMMON = {
    2: Status.PAUSE,
    4: Status.CLOSE,
    17: Status.OPEN,
    21: Status.RESERVED,
    101: Status.FINAL_CLOSING_CALL,
}
_OF_GROUP = {**_COMMON, 18: Status.PRE_CLOSE}
_OF_INSTRUMENT = {**_COMMON, 18: Status.FORBIDDEN}
_UNDEFINED = 20
_NUMBERS = {
    name: value
    for enumeration in ("TradingSessionSubID", "SecurityTradingStatus")
    for name, value in by_name(
        enumeration, {value: value for value in (*_OF_GROUP, _UNDEFINED)}
    ).items()
}
_EVENTS = by_name("SecurityTradingEvent", {event.value: event for event in TradingEvent})
SESSION_CHANGE: Final = value_names("SecurityTradingEvent", TradingEvent.TRADING_SESSION_CHANGE)
"""Names of securityTradingEvent: a new trading session."""


def phase_status(trading_session_sub_id: Code) -> Status:
    """Return the status of a group's phase (tradingSessionSubID)."""
    return _OF_GROUP.get(_number(trading_session_sub_id), Status.UNKNOWN)


def instrument_status(security_trading_status: Code) -> Status:
    """Return the status of an instrument's own state (securityTradingStatus)."""
    return _OF_INSTRUMENT.get(_number(security_trading_status), Status.UNKNOWN)


def is_undefined(code: Code) -> bool:
    """Whether a state or phase is stated to be undefined (001 §12, 002 §11.1)."""
    return _number(code) == _UNDEFINED


def _number(code: Code) -> int:
    if isinstance(code, str):
        number = _NUMBERS.get(code)
        return number if number is not None else int(code) if code.isdecimal() else 0
    return code or 0


def _event(code: Code) -> int | None:
    if isinstance(code, str):
        return _EVENTS.get(code)
    return code


class GroupKey(NamedTuple):
    """Key of a group: group codes may repeat across exchanges."""

    group: str
    exchange: str = "BVMF"


class StatusChange(NamedTuple):
    """The trading state of an instrument changed."""

    security_id: int
    before: Status
    now: Status


class StatisticsReset(NamedTuple):
    """The session figures of these instruments restart."""

    security_ids: tuple[int, ...]


PhaseEvent = StatusChange | StatisticsReset


@dataclass(slots=True)
class _State:
    group: GroupKey | None = None
    own: Status | None = None
    """Its separate state; None while it follows its group."""
    published: Status = Status.UNKNOWN
    """Its last stated status; in effect while the phase of its group is unknown, or, if its group
    itself is unknown, until any group changes to another phase."""


class Phases:
    """Phases and trading states of a channel."""

    def __init__(self) -> None:
        self._phases: dict[GroupKey, Status] = {}
        self._states: dict[int, _State] = {}
        self._members: dict[GroupKey, dict[int, None]] = {}
        self._ungrouped: dict[int, _State] = {}
        """Instruments of unknown groups, whose definitions were not received."""

    def status(self, security_id: int) -> Status:
        """Return the trading state of an instrument."""
        state = self._states.get(security_id)
        if state is None:
            return Status.UNKNOWN
        if state.own is not None:
            return state.own
        phase = None if state.group is None else self._phases.get(state.group)
        return state.published if phase is None else phase

    @property
    def groups(self) -> Collection[GroupKey]:
        """The groups with a known phase."""
        return self._phases.keys()

    def phase(self, group: GroupKey) -> Status:
        """Return the phase of a group."""
        return self._phases.get(group, Status.UNKNOWN)

    def is_separate(self, security_id: int) -> bool:
        """Whether an instrument has a state separate from its group."""
        state = self._states.get(security_id)
        return state is not None and state.own is not None

    def trades_continuously(self, security_id: int) -> bool:
        """Whether orders match immediately: instrument and group must both be open."""
        state = self._states.get(security_id)
        group = None if state is None else state.group
        open_group = group is None or self._phases.get(group, Status.OPEN) is Status.OPEN
        return self.status(security_id) is Status.OPEN and open_group

    def define(self, security_id: int, group: GroupKey) -> list[PhaseEvent]:
        """Assign an instrument to a group, from its definition."""
        before = self.status(security_id)
        state = self._states.setdefault(security_id, _State())
        if state.group is not None:
            self._members[state.group].pop(security_id, None)
        self._ungrouped.pop(security_id, None)
        state.group = group
        self._members.setdefault(group, {})[security_id] = None
        return self._change(security_id, before)

    def remove(self, security_id: int) -> None:
        """Remove an instrument that is no longer listed."""
        state = self._states.pop(security_id, None)
        self._ungrouped.pop(security_id, None)
        if state is not None and state.group is not None:
            self._members[state.group].pop(security_id, None)

    def group_phase(
        self, group: GroupKey, trading_session_sub_id: Code, event: Code = None
    ) -> list[PhaseEvent]:
        """Apply a SecurityGroupPhase: all instruments of the group follow, except separate ones.

        The status of an instrument of an unknown group, which may be this one, becomes unknown.
        """
        changes: list[PhaseEvent] = [*self._enter(group, trading_session_sub_id)]
        if _event(event) == TradingEvent.TRADING_SESSION_CHANGE:
            changes.append(StatisticsReset(tuple(self._members.get(group, ()))))
        return changes

    def _enter(self, group: GroupKey, code: Code) -> list[StatusChange]:
        """Set the phase of a group; null and numbers without a meaning change nothing.

        A phase that is stated to be undefined is unknown (001 §12).
        """
        phase, before = phase_status(code), self._phases.get(group)
        if phase is before or (phase is Status.UNKNOWN and not is_undefined(code)):
            return []
        self._phases[group] = phase
        changes = []
        states = self._states
        for security_id in self._members.get(group, ()):
            state = states[security_id]
            if state.own is None:
                was = state.published if before is None else before
                if was is not phase:
                    changes.append(StatusChange(security_id, was, phase))
        for security_id, state in self._ungrouped.items():
            known = state.published not in (phase, Status.UNKNOWN)
            if known and state.own is None:
                changes.append(StatusChange(security_id, state.published, Status.UNKNOWN))
                state.published = Status.UNKNOWN
        return changes

    def inferred_event(self, security_id: int, security_trading_status: Code) -> TradingEvent:
        """Return the event of a state on the legacy feed, which does not state it (002 §15.6).

        A separate instrument rejoins its group with the state of the group.
        """
        state = self._states.get(security_id)
        if state is not None and state.own is not None and state.group is not None:
            phase = self.phase(state.group)
            if phase is phase_status(security_trading_status) and phase is not Status.UNKNOWN:
                return TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
        return TradingEvent.SECURITY_STATUS_CHANGE

    def members(self, group: GroupKey) -> list[int]:
        """Return the instruments of a group."""
        return list(self._members.get(group, ()))

    def security_status(
        self, security_id: int, security_trading_status: Code, event: Code = None
    ) -> list[PhaseEvent]:
        """Apply a SecurityStatus, of the incremental stream or of a snapshot.

        Only SECURITY_STATUS_CHANGE separates an instrument from its group. No state at all, outside
        a change of session, means that it follows the group. A state that is stated to be undefined
        is unknown (001 §12); other numbers without a meaning change nothing.
        """
        event = _event(event)
        before = self.status(security_id)
        of_group: list[PhaseEvent] = []
        state = self._state(security_id)
        own = instrument_status(security_trading_status)
        stated = own is not Status.UNKNOWN or is_undefined(security_trading_status)
        if event == TradingEvent.SECURITY_STATUS_CHANGE and stated:
            state.own = own
        elif event == TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS:
            state.own = None
            state.published = phase_status(security_trading_status)
            if state.group is not None:
                # It now shows the phase of its group, which is news about the group as well.
                entered = self._enter(state.group, security_trading_status)
                of_group = [each for each in entered if each.security_id != security_id]
        elif not stated:
            if event is None:
                state.own = None
        elif state.own is not None:
            state.own = own
        else:
            state.published = phase_status(security_trading_status)
        changes = of_group + self._change(security_id, before)
        if event == TradingEvent.TRADING_SESSION_CHANGE:
            changes.append(StatisticsReset((security_id,)))
        return changes

    def _state(self, security_id: int) -> _State:
        """Return the state of an instrument; a new one belongs to no known group."""
        state = self._states.get(security_id)
        if state is None:
            state = self._states[security_id] = self._ungrouped[security_id] = _State()
        return state

    def _change(self, security_id: int, before: Status) -> list[PhaseEvent]:
        """Return the change of an instrument's state, if it changed."""
        now = self.status(security_id)
        return [] if now is before else [StatusChange(security_id, before, now)]


# --- Trading days ---


def day_of_packets(
    sending_time_ns: npt.NDArray[np.int64], capture_time_ns: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the days of packets; a sending time of 0 means none."""
    return day_of(np.where(sending_time_ns > 0, sending_time_ns, capture_time_ns))


# --- Last price ---


def sets_last_price(trade_condition: int, trd_sub_type: str | int | None) -> bool:
    """Whether a trade sets the last price."""
    return not trade_condition & NOT_LAST_CONDITIONS and trd_sub_type not in _NOT_LAST


def set_last_price(
    trade_condition: npt.NDArray[np.int64], excluded: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the columnar form of `sets_last_price`; ``excluded`` masks the excluded sub types."""
    found: npt.NDArray[np.bool_] = ((trade_condition & NOT_LAST_CONDITIONS) == 0) & ~excluded
    return found
