"""Injected network faults: lost, duplicated and reordered packets of a feed, with counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pregao.errors import UsageError

if TYPE_CHECKING:
    # Importing the settings loads this module, which should not load the traders for a type.
    from pregao.exchange.traders.arrivals import SeededRandom

STREAMS = ("A", "B", "snapshot", "definition")
"""Feeds that can have faults: the two incremental feeds, and the two loops."""
_MAX_LAG = 3
"""Maximum number of packets by which a reordered packet is delayed."""

_Packet = TypeVar("_Packet")


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Probability of each fault per packet of one feed."""

    loss: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0

    @property
    def any(self) -> bool:
        """Whether any fault can happen."""
        return bool(self.loss or self.reorder or self.duplicate)


@dataclass(slots=True)
class FaultCounts:
    """Number of packets of one feed per kind of fault."""

    lost: int = 0
    reordered: int = 0
    duplicated: int = 0


class FaultyFeed(Generic[_Packet]):
    """Forwards packets, and loses, duplicates or reorders some of them.

    A packet is reordered if it is delivered after one that was sent later. Only actual faults are
    counted: a packet held back without any packet sent after it is not reordered.
    """

    def __init__(self, rates: FaultRates, draws: SeededRandom) -> None:
        self.counts = FaultCounts()
        self.lost = False
        """Whether the last packet was lost."""
        self._loss = rates.loss
        self._duplicate = rates.loss + rates.duplicate
        self._reorder = self._duplicate + rates.reorder
        self._draws = draws
        self._held: list[_Packet] = []
        self._wait = 0
        self._overtaken = False

    def send(self, packet: _Packet) -> list[_Packet]:
        """Send a packet; return the packets that arrive now, in order of arrival."""
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
            self._wait = self._draws.randint(1, _MAX_LAG)
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
        """Return the packets still held back."""
        held, self._held = self._held, []
        if held and self._overtaken:
            self.counts.reordered += 1
        return held


def parse_rates(option: str, text: str | None) -> dict[str, float]:
    """Parse a rate of both incremental feeds (``0.01``) or by feed (``A=0.01,snapshot=0.1``)."""
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
            raise UsageError(f"{option}: unknown feed {feed!r}: use {', '.join(STREAMS)}")
        if feed in seen:
            raise UsageError(f"{option}: feed {feed} is given twice")
        seen.add(feed)
        rates[feed] = _rate(option, value)
    return rates


def fault_rates(
    loss: Mapping[str, float], reorder: Mapping[str, float], duplicate: Mapping[str, float]
) -> dict[str, FaultRates]:
    """Combine the rates of the three faults into one `FaultRates` per feed."""
    by_feed = {}
    for feed in STREAMS:
        rates = FaultRates(loss[feed], reorder[feed], duplicate[feed])
        if rates.loss + rates.reorder + rates.duplicate > 1:
            raise UsageError(
                f"loss, reorder and duplicate rates of feed {feed} add up to more than 1: "
                "lower one of them"
            )
        by_feed[feed] = rates
    return by_feed


def _rate(option: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UsageError(f"{option}: rate must be from 0 to 1, e.g. 0.01, was {text.strip()!r}")
    return rate
