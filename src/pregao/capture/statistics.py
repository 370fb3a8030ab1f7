"""The account of a capture: what became of every packet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class CaptureStatistics:
    """Counts of packets; every packet is in exactly one of them.

    ``packets == udp + tcp + cut + malformed + other + fragments``, where ``udp`` and ``tcp`` were
    delivered, ``cut`` were shortened by the snap length, ``malformed`` and ``other`` (neither UDP
    nor TCP) are counted per reason, and ``fragments`` were taken in without completing a datagram
    (the one that completes it counts as what came out).

    Of the fragments, ``fragments_joined`` went into a whole datagram, ``fragments_dropped`` were
    given up and ``fragments_pending`` are held: these three sum up to ``fragments``.
    ``reassembled`` counts the datagrams that were joined. ``bytes`` is what was captured,
    ``udp_bytes`` what the delivered UDP payloads have.
    """

    packets: int = 0
    bytes: int = 0
    udp: int = 0
    udp_bytes: int = 0
    tcp: int = 0
    cut: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    fragments: int = 0
    fragments_pending: int = 0
    fragments_joined: int = 0
    fragments_dropped: int = 0
    reassembled: int = 0

    @property
    def accounted(self) -> int:
        """The sum over all outcomes, which must equal ``packets``."""
        return (
            self.udp
            + self.tcp
            + self.cut
            + self.malformed.total()
            + self.other.total()
            + self.fragments
        )

    def add(self, more: CaptureStatistics) -> None:
        """Add the counts of another capture or range."""
        for entry in fields(self):
            mine = getattr(self, entry.name)
            if isinstance(mine, Counter):
                mine.update(getattr(more, entry.name))
            else:
                setattr(self, entry.name, mine + getattr(more, entry.name))
