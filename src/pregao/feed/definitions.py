"""The instruments of a channel: known from its definition stream, then from its incrementals.

The definition stream is listened to until a whole loop came, and again when packets were lost that
may have held a definition. A definition of the incremental stream is newer than the loop that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pregao.feed.channel_events import Change
from pregao.feed.channel_settings import MAX_INSTRUMENTS
from pregao.feed.snapshot_intake import ends_version
from pregao.umdf.loops import DefinitionLoop
from pregao.umdf.packets import DecodedPacket
from pregao.umdf.phases import GroupKey
from pregao.umdf.templates import SECURITY_DEFINITIONS

EXCHANGE = "BVMF"
"""The exchange where a message names none."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """An instrument as it was defined last."""

    security_id: int
    symbol: str
    group: GroupKey
    values: Mapping[str, Any]
    """All fields of its definition."""

    @staticmethod
    def of(values: Mapping[str, Any]) -> Instrument:
        """From the values of a decoded definition."""
        return Instrument(
            values["securityID"],
            values["symbol"] or "",
            group_key(values),
            values,
        )


def group_key(values: Mapping[str, Any]) -> GroupKey:
    """The group that a message is about: codes may repeat amongst exchanges (000 §14)."""
    return GroupKey(values["securityGroup"] or "", values.get("securityExchange") or EXCHANGE)


Changes = Iterator[tuple[Change, Instrument]]


class Definitions:
    """Keeps the instruments of a channel."""

    def __init__(self, max_instruments: int = MAX_INSTRUMENTS) -> None:
        self._max_instruments = max_instruments
        self._dropped = 0
        self.known: dict[int, Instrument] = {}
        self.complete = False
        """Have all instruments come, and nothing been lost since that may have changed one?"""
        self.loops = 0
        self._loop: DefinitionLoop[Instrument] = DefinitionLoop()
        self._newer: set[int] = set()
        """Instruments of which the incremental stream told while a loop is waited for."""
        self._resent: set[int] | None = None
        """Those that were sent again since a ChannelReset; None if the list cannot be whole."""

    def take_dropped(self) -> int:
        """How many definitions there was no capacity for since this was last asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def _admits(self, security_id: int) -> bool:
        if security_id in self.known or len(self.known) < self._max_instruments:
            return True
        self._dropped += 1
        return False

    def lost(self) -> None:
        """Packets of the incremental stream were lost: a whole loop is needed again."""
        self._begin_anew()
        self._resent = None

    def channel_reset(self) -> None:
        """A ChannelReset: the list may be sent again, until LastFragment (000 §6.5.12)."""
        self._resent = set()

    def _begin_anew(self) -> None:
        self.complete = False
        self._loop = DefinitionLoop()
        self._newer.clear()

    # The incremental stream

    def message(self, values: Mapping[str, Any]) -> Changes:
        """Take a definition of the incremental stream in."""
        instrument = Instrument.of(values)
        security_id = instrument.security_id
        if not self._admits(security_id):
            return
        if not self.complete:
            self._newer.add(security_id)
        if values["securityUpdateAction"] == "DELETE":
            if self.known.pop(security_id, None) is not None:
                yield Change.DELETED, instrument
        else:
            yield from self._define(instrument)
        if self._resent is not None:
            self._resent.add(security_id)
            if values.get("lastFragment") == "TRUE_VALUE":
                resent, self._resent = self._resent, None
                if len(resent) == values["totNoRelatedSym"] and resent >= self.known.keys():
                    self.complete = True

    def _define(self, instrument: Instrument) -> Changes:
        before = self.known.get(instrument.security_id)
        self.known[instrument.security_id] = instrument
        if before is None:
            yield Change.ADDED, instrument
        elif _told(before) != _told(instrument):
            yield Change.CHANGED, instrument

    # The definition stream

    def looped(self, packet: DecodedPacket) -> Changes:
        """Take a packet of the definition stream in."""
        header = packet.header
        resets = ends_version(packet)
        if self.complete or not self._loop.packet(
            header.sequence_version, header.sequence_number, resets=resets
        ):
            return
        for found in packet.messages:
            if found.message.id in SECURITY_DEFINITIONS:
                instrument = Instrument.of(found.values)
                security_id = instrument.security_id
                self._loop.definition(security_id, found.values["totNoRelatedSym"], instrument)
                if security_id not in self._newer and self._admits(security_id):
                    yield from self._define(instrument)
        if resets and self._loop.complete:
            self.loops += 1
            yield from self._whole_loop()

    def _whole_loop(self) -> Changes:
        """What is not in a whole loop, and was not told of since, is no longer listed."""
        listed = self._loop.definitions.keys() | self._newer
        for security_id in [each for each in self.known if each not in listed]:
            yield Change.DELETED, self.known.pop(security_id)
        self._begin_anew()
        self.complete = True


_ABOUT_THE_LIST = frozenset({"securityUpdateAction", "totNoRelatedSym", "lastFragment"})
"""Fields that tell of the list and not of the instrument."""


def _told(instrument: Instrument) -> dict[str, Any]:
    return {k: v for k, v in instrument.values.items() if k not in _ABOUT_THE_LIST}
