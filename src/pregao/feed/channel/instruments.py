"""Instruments of a channel: from its definition stream, then from its incremental stream.

The definition stream is joined until a loop is complete, and again after a gap that may have
contained a definition. A definition of the incremental stream is newer than the current loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pregao.events import DefinitionChange
from pregao.feed.recovery import MAX_INSTRUMENTS
from pregao.feed.snapshot_assembly import ends_version
from pregao.notebook import record_html
from pregao.umdf.loops import DefinitionLoop
from pregao.umdf.packets import DecodedPacket
from pregao.umdf.phases import GroupKey
from pregao.umdf.templates import DELISTED, SECURITY_DEFINITIONS, value_names

EXCHANGE = "BVMF"
"""The exchange of messages that name none."""
_TRUE = value_names("Boolean", 1)


@dataclass(frozen=True, slots=True)
class ChannelInstrument:
    """An instrument as last defined."""

    security_id: int
    symbol: str
    group: GroupKey
    values: Mapping[str, Any]
    """All fields of its definition."""

    def __repr__(self) -> str:
        return f"<{self.symbol} {self.security_id}, group {self.group.group}>"

    def _repr_html_(self) -> str:
        return record_html(self.symbol, self.values)

    @staticmethod
    def from_values(values: Mapping[str, Any]) -> ChannelInstrument:
        """Build an instrument from a decoded definition."""
        return ChannelInstrument(
            values["securityID"],
            values["symbol"] or "",
            group_key(values),
            values,
        )


def group_key(values: Mapping[str, Any]) -> GroupKey:
    """Return the group that a message concerns: exchanges may use the same codes (000 §14)."""
    return GroupKey(values["securityGroup"] or "", values.get("securityExchange") or EXCHANGE)


Changes = Iterator[tuple[DefinitionChange, ChannelInstrument]]


class Definitions:
    """Keeps the instruments of a channel."""

    def __init__(self, max_instruments: int = MAX_INSTRUMENTS) -> None:
        self._max_instruments = max_instruments
        self._dropped = 0
        self.known: dict[int, ChannelInstrument] = {}
        self.complete = False
        """Whether all instruments are known, and no gap since may have changed one."""
        self.loops = 0
        self._loop: DefinitionLoop[ChannelInstrument] = DefinitionLoop()
        self._newer: set[int] = set()
        """Instruments that the incremental stream defined while a loop is incomplete."""
        self._resent: set[int] | None = None
        """Instruments resent since a ChannelReset; None if the list cannot be complete."""

    def take_dropped(self) -> int:
        """Return the number of definitions dropped for lack of capacity since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def _admits(self, security_id: int) -> bool:
        if security_id in self.known or len(self.known) < self._max_instruments:
            return True
        self._dropped += 1
        return False

    def lost(self) -> None:
        """Record a gap in the incremental stream: a complete loop is needed again."""
        self._restart()
        self._resent = None

    def channel_reset(self) -> None:
        """Record a ChannelReset: the list may be resent, until LastFragment (000 §6.5.12)."""
        self._resent = set()

    def _restart(self) -> None:
        self.complete = False
        self._loop = DefinitionLoop()
        self._newer.clear()

    # The incremental stream

    def message(self, values: Mapping[str, Any]) -> Changes:
        """Apply a definition of the incremental stream. Yields the changes."""
        instrument = ChannelInstrument.from_values(values)
        security_id = instrument.security_id
        if not self._admits(security_id):
            return
        if not self.complete:
            self._newer.add(security_id)
        if values["securityUpdateAction"] in DELISTED:
            if self.known.pop(security_id, None) is not None:
                yield DefinitionChange.DELETED, instrument
        else:
            yield from self._define(instrument)
        if self._resent is not None:
            self._resent.add(security_id)
            if values.get("lastFragment") in _TRUE:
                resent, self._resent = self._resent, None
                if len(resent) == values["totNoRelatedSym"] and resent >= self.known.keys():
                    self.complete = True

    def _define(self, instrument: ChannelInstrument) -> Changes:
        before = self.known.get(instrument.security_id)
        self.known[instrument.security_id] = instrument
        if before is None:
            yield DefinitionChange.ADDED, instrument
        elif _changed(before) != _changed(instrument):
            yield DefinitionChange.CHANGED, instrument

    # The definition stream

    def looped(self, packet: DecodedPacket) -> Changes:
        """Process a packet of the definition stream. Yields the changes."""
        header = packet.header
        resets = ends_version(packet)
        if self.complete or not self._loop.packet(
            header.sequence_version, header.sequence_number, resets=resets
        ):
            return
        for found in packet.messages:
            if found.message.id in SECURITY_DEFINITIONS:
                instrument = ChannelInstrument.from_values(found.values)
                security_id = instrument.security_id
                self._loop.definition(security_id, found.values["totNoRelatedSym"], instrument)
                if security_id not in self._newer and self._admits(security_id):
                    yield from self._define(instrument)
        if resets and self._loop.complete:
            self.loops += 1
            yield from self._whole_loop()

    def _whole_loop(self) -> Changes:
        """Delete instruments that are neither in the complete loop nor defined since."""
        listed = self._loop.definitions.keys() | self._newer
        for security_id in [each for each in self.known if each not in listed]:
            yield DefinitionChange.DELETED, self.known.pop(security_id)
        self._restart()
        self.complete = True


_ABOUT_THE_LIST = frozenset({"securityUpdateAction", "totNoRelatedSym", "lastFragment"})
"""Fields that describe the list, not the instrument."""


def _changed(instrument: ChannelInstrument) -> dict[str, Any]:
    return {k: v for k, v in instrument.values.items() if k not in _ABOUT_THE_LIST}
