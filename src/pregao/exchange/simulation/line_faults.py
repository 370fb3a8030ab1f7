"""Faults of a network: packets that a feed loses, repeats or delivers out of order, all counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pregao.errors import UsageError

if TYPE_CHECKING:
    # The settings need the rates; they should not load the traders for a name.
    from pregao.exchange.traders.draws import Draws

STREAMS = ("A", "B", "snapshot", "definition")
"""Where faults can happen: the two incremental feeds, and the two loops."""
_MOST_BEHIND = 3
"""A packet out of order comes up to so many packets late."""

_Packet = TypeVar("_Packet")


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often each fault happens to a packet of one feed."""

    loss: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0

    @property
    def any(self) -> bool:
        """Does anything happen at all?"""
        return bool(self.loss or self.reorder or self.duplicate)


@dataclass(slots=True)
class FaultCounts:
    """What happened to the packets of one feed."""

    lost: int = 0
    reordered: int = 0
    duplicated: int = 0


class FaultyFeed(Generic[_Packet]):
    """Passes packets on, but for those that something happens to.

    A packet out of order is one that is delivered after a packet sent later. Only what really
    happened is counted: a packet held back with nothing sent after it is not out of order.
    """

    def __init__(self, rates: FaultRates, draws: Draws) -> None:
        self.counts = FaultCounts()
        self.lost = False
        """Was the last packet lost?"""
        self._loss = rates.loss
        self._duplicate = rates.loss + rates.duplicate
        self._reorder = self._duplicate + rates.reorder
        self._draws = draws
        self._held: list[_Packet] = []
        self._wait = 0
        self._overtaken = False

    def send(self, packet: _Packet) -> list[_Packet]:
        """What arrives when this packet is sent, in the order of arrival."""
        counts = self.counts
        draw = self._draws.random()
        self.lost = draw < self._loss
        if self.lost:
            counts.lost += 1
            return []
        if draw < self._duplicate:
            counts.duplicated += 1
            arrived = [packet, packet]
        elif draw < self._reorder and not self._held:
            self._held.append(packet)
            self._wait = self._draws.randint(1, _MOST_BEHIND)
            self._overtaken = False
            return []
        else:
            arrived = [packet]
        if self._held:
            self._overtaken = True
            self._wait -= 1
            if not self._wait:
                arrived += self.finish()
        return arrived

    def finish(self) -> list[_Packet]:
        """What is still on its way."""
        held, self._held = self._held, []
        if held and self._overtaken:
            self.counts.reordered += 1
        return held


def parse_rates(option: str, text: str | None) -> dict[str, float]:
    """Read a rate for both incremental feeds (``0.01``) or by feed (``A=0.01,snapshot=0.1``)."""
    rates = dict.fromkeys(STREAMS, 0.0)
    if text is None or not text.strip():
        return rates
    if "=" not in text:
        rates["A"] = rates["B"] = _rate(option, text)
        return rates
    seen = set()
    for part in text.split(","):
        feed, _, value = part.partition("=")
        feed = feed.strip()
        if feed not in rates:
            raise UsageError(f"{option}: there is no feed {feed!r}: use {', '.join(STREAMS)}")
        if feed in seen:
            raise UsageError(f"{option}: feed {feed} is given twice")
        seen.add(feed)
        rates[feed] = _rate(option, value)
    return rates


def fault_rates(
    loss: Mapping[str, float], reorder: Mapping[str, float], duplicate: Mapping[str, float]
) -> dict[str, FaultRates]:
    """Put the rates of each feed together."""
    together = {}
    for feed in STREAMS:
        rates = FaultRates(loss[feed], reorder[feed], duplicate[feed])
        if rates.loss + rates.reorder + rates.duplicate > 1:
            raise UsageError(
                f"loss, reorder and duplicate of feed {feed} sum to more than 1: lower one of them"
            )
        together[feed] = rates
    return together


def _rate(option: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UsageError(f"{option}: {text.strip()!r} is not a rate from 0 to 1, such as 0.01")
    return rate
