"""Statistics of a capture: the outcome of every packet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class CaptureStatistics:
    """Packet counts; every packet is in exactly one of them.

    ``packets == udp + tcp + cut + malformed + other + fragments``, where ``udp`` and ``tcp`` were
    delivered, ``cut`` were truncated by the snap length, ``malformed`` and ``other`` (neither UDP
    nor TCP) are counted by reason, and ``fragments`` did not complete a datagram (the completing
    one counts as the resulting packet).

    Of the fragments, ``fragments_joined`` became part of a datagram, ``fragments_dropped`` were
    dropped and ``fragments_pending`` are held: these three sum to ``fragments``. ``reassembled``
    counts the reassembled datagrams. ``bytes`` is the captured bytes, ``udp_bytes`` those of the
    delivered UDP payloads.
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
        """Sum of all outcomes, which must equal ``packets``."""
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
