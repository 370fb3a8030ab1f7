"""Timeline of the states of a channel's groups and instruments.

The rules of states are those of `pregao.umdf.phases`; this module records their changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pregao.umdf.keys import MESSAGE_KEY
from pregao.umdf.phases import (
    SESSION_CHANGE,
    GroupKey,
    PhaseEvent,
    Phases,
    Status,
    StatusChange,
)

UNTOLD = "UNTOLD"
"""Stand-in for the event of a state: the legacy feed does not state if it rejoins its group."""


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """SecurityGroupPhase, or SecurityStatus if it names an instrument."""

    security_group: str | None
    security_id: int | None
    code: str | None
    """Phase or state, by its name in the schema."""
    trading_event: str | None
    trading_session_id: str | None
    auction_end_ns: int | None
    time_ns: int | None
    sending_time_ns: int
    snapshot: bool = False
    lost_before: int | None = None
    """Event key of the last packet lost before the event key that a snapshot is as of."""
    event_key: int | None = 0
    event: int | None = None
    sequence_version: int | None = None
    sequence_number: int | None = None
    index_in_packet: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMember:
    """Instrument of a group, from the event key at which it was listed until it was removed."""

    security_id: int
    security_group: str | None
    listed_at: int = 0
    """0 if it was listed before the day."""
    listed_ns: int | None = None
    removed_at: int | None = None
    removed_ns: int | None = None


class _Held(NamedTuple):
    """State of a group or an instrument."""

    status: Status
    phase: Status
    separate: bool
    trades_continuously: bool
    trading_session_id: str | None
    auction_end_ns: int | None


_Subject = GroupKey | int


class Timeline:
    """Follows a channel and records a row for each period of an unchanged state."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        """Rows in the order of their starts; ``at`` is the event key of the last incremental
        message, ``line`` the row's number.
        """
        self._at = 0
        self._phases = Phases()
        self._groups: dict[int, GroupKey] = {}
        self._members: dict[GroupKey, dict[int, None]] = {}
        self._sessions: dict[_Subject, str | None] = {}
        self._auction_ends: dict[_Subject, int | None] = {}
        self._known_at: dict[_Subject, int] = {}
        """Event keys of the last messages, or of what the last snapshots were as of."""
        self._current: dict[_Subject, tuple[_Held, dict[str, Any]]] = {}

    def list_instrument(self, security_id: int, security_group: str | None) -> None:
        """Add an instrument to a group."""
        if security_group is not None:
            group = GroupKey(security_group)
            self._groups[security_id] = group
            self._members.setdefault(group, {})[security_id] = None
            self._phases.define(security_id, group)

    def add_instrument(self, member: GroupMember) -> None:
        """Add an instrument listed during the day: it follows its group from the start."""
        self._at = member.listed_at
        self.list_instrument(member.security_id, member.security_group)
        group = self._groups.get(member.security_id)
        if group is not None and group in self._sessions:
            self._sessions[member.security_id] = self._sessions[group]
            self._begin(member.security_id, member.listed_ns, "definition")

    def remove_instrument(self, security_id: int, time_ns: int | None) -> None:
        """End the state of a removed instrument."""
        self._phases.remove(security_id)
        if (group := self._groups.pop(security_id, None)) is not None:
            del self._members[group][security_id]
        for known in (self._sessions, self._auction_ends, self._known_at):
            known.pop(security_id, None)
        if (current := self._current.pop(security_id, None)) is not None:
            current[1]["until_ns"] = time_ns

    def apply(self, message: StatusMessage) -> None:
        """Apply a message.

        Snapshots repeat the current state: one counts only for a subject without an earlier
        message, or of which one may have been lost since (000 §7.4).
        """
        if not message.snapshot:
            self._at = message.event_key or 0
        if message.security_id is None:
            self._add_phase(message, GroupKey(message.security_group or ""))
        else:
            self._add_state(message, message.security_id)

    def _repeats(self, message: StatusMessage, subject: _Subject) -> bool:
        """Whether it is a snapshot of a known state; otherwise note that the state is known."""
        if message.snapshot and (known := self._known_at.get(subject)) is not None:
            if message.lost_before is None or message.lost_before <= known:
                return True
            self._known_at[subject] = max(known, message.event_key or message.lost_before)
            return False
        self._known_at[subject] = (message.event_key or 0) if message.snapshot else self._at
        return False

    def _add_phase(self, message: StatusMessage, group: GroupKey) -> None:
        if self._repeats(message, group):
            return
        changes = self._phases.group_phase(group, message.code, message.trading_event)
        begins = message.trading_event in SESSION_CHANGE and not message.snapshot
        self._auction_ends[group] = message.auction_end_ns
        subjects = self._subjects(group)
        for subject in subjects:
            self._sessions[subject] = message.trading_session_id
            self._note(subject, message, begins)
        self._note_ungrouped(changes, message)

    def _note_ungrouped(self, changes: Iterable[PhaseEvent], message: StatusMessage) -> None:
        """Start rows of instruments of unknown groups whose state a group's phase made unknown."""
        for change in changes:
            if isinstance(change, StatusChange) and change.security_id not in self._groups:
                self._note(change.security_id, message, False)

    def _subjects(self, group: GroupKey) -> list[_Subject]:
        """Return a group and its instruments."""
        return [group, *self._members.get(group, ())]

    def _add_state(self, message: StatusMessage, security_id: int) -> None:
        if self._repeats(message, security_id):
            return
        group = self._groups.get(security_id)
        phase = None if group is None else self._phases.phase(group)
        event = message.trading_event
        if event == UNTOLD:
            event = self._phases.inferred_event(security_id, message.code).name
        changes = self._phases.security_status(security_id, message.code, event)
        self._sessions[security_id] = message.trading_session_id
        self._auction_ends[security_id] = message.auction_end_ns
        begins = message.trading_event in SESSION_CHANGE and not message.snapshot
        self._note(security_id, message, begins)
        # An instrument that rejoins shows the phase of its group, which may be new for the others.
        if group is not None and self._phases.phase(group) is not phase:
            for subject in self._subjects(group):
                self._note(subject, message, False)
            self._note_ungrouped(changes, message)

    def _held(self, subject: _Subject) -> _Held:
        session = self._sessions.get(subject)
        if isinstance(subject, GroupKey):
            phase = self._phases.phase(subject)
            end = self._auction_ends.get(subject)
            return _Held(phase, phase, False, phase is Status.OPEN, session, end)
        group = self._groups.get(subject)
        separate = self._phases.is_separate(subject)
        follows = group is not None and not separate and group in self._auction_ends
        return _Held(
            self._phases.status(subject),
            Status.UNKNOWN if group is None else self._phases.phase(group),
            separate,
            self._phases.trades_continuously(subject),
            session,
            self._auction_ends.get(group if follows and group is not None else subject),
        )

    def _note(self, subject: _Subject, message: StatusMessage, begins: bool) -> None:
        """Start a row if the state has changed or a session starts."""
        since = message.time_ns
        if (before := self._current.get(subject)) is not None:
            if before[0] == self._held(subject) and not begins:
                return
            # The state in a snapshot may be older than the known one.
            if since is not None and before[1]["from_ns"] is not None:
                since = max(since, before[1]["from_ns"])
            before[1]["until_ns"] = since
        row = self._begin(subject, since, _source(message))
        row["new_session"] = begins
        for name in ("event", *MESSAGE_KEY):
            row[name] = getattr(message, name)

    def _begin(self, subject: _Subject, since: int | None, source: str) -> dict[str, Any]:
        held = self._held(subject)
        group = subject if isinstance(subject, GroupKey) else self._groups.get(subject)
        row = {
            "security_group": None if group is None else group.group,
            "security_id": None if isinstance(subject, GroupKey) else subject,
            "status": held.status.name,
            "phase": held.phase.name,
            "own_status": held.separate,
            "trades_continuously": held.trades_continuously,
            "trading_session_id": held.trading_session_id,
            "auction_end_ns": held.auction_end_ns,
            "new_session": False,
            "from_ns": since,
            "until_ns": None,
            "source": source,
            "at": self._at,
            "line": len(self.rows),
        }
        self._current[subject] = held, row
        self.rows.append(row)
        return row


def _source(message: StatusMessage) -> str:
    kind = "phase" if message.security_id is None else "state"
    return f"snapshot {kind}" if message.snapshot else kind


def timeline(
    members: Iterable[GroupMember], messages: Iterable[StatusMessage]
) -> list[dict[str, Any]]:
    """Return the rows of a channel's day.

    Incremental messages are ordered by event key. A snapshot is placed between them by the key
    that it is as of, or by its sending time if that is not known.
    """
    line = Timeline()
    steps: list[tuple[int, int, int | None, Callable[[], None]]] = []
    for member in members:
        if member.listed_at:
            add = partial(line.add_instrument, member)
            steps.append((member.listed_at, 0, member.listed_ns, add))
        else:
            line.list_instrument(member.security_id, member.security_group)
        if member.removed_at is not None:
            remove = partial(line.remove_instrument, member.security_id, member.removed_ns)
            steps.append((member.removed_at, 1, member.removed_ns, remove))
    snapshots: list[StatusMessage] = []
    for message in messages:
        if message.security_id is None and message.security_group is None:
            continue  # its block was too short to name its subject
        if message.snapshot and not message.event_key:
            snapshots.append(message)
        elif message.event_key is not None:  # without a packet number it has no order
            # As of one packet, phases precede states.
            order = 2 if message.security_id is None else 3
            steps.append(
                (message.event_key, order, message.sending_time_ns, partial(line.apply, message))
            )
    snapshots.sort(key=lambda message: -message.sending_time_ns)
    for _, _, time_ns, step in sorted(steps, key=lambda step: step[:2]):
        while snapshots and time_ns is not None and snapshots[-1].sending_time_ns <= time_ns:
            line.apply(snapshots.pop())
        step()
    while snapshots:
        line.apply(snapshots.pop())
    return line.rows
