"""Columnar form of `pregao.umdf.gaps`, for a complete day of items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pregao.umdf import _gap_kernels as k
from pregao.umdf.gaps import MOST_IN_PACKET, InstrumentCount

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

HEALED = k.HEALED
"""Flag next to the step: the instrument was stale before the item and is not after it."""
DOUBTED = k.DOUBTED
"""Flag next to the step: the instrument is unconfirmed from the item on."""
CONFIRMED = k.CONFIRMED
"""Flag next to the step: the item confirms the instrument."""


@dataclass(slots=True)
class Counters:
    """Counters of instruments as columns; they carry over between calls."""

    last: Numbers
    """Last counts; if negative, constants for instruments without a count."""
    stale: Codes
    proven: Numbers
    """Missing packets up to the last proof."""
    doubted: Codes
    """Whether packets are missing since the last proof."""
    most_in_packet: int = MOST_IN_PACKET

    @staticmethod
    def new(
        instruments: int, *, from_the_start: bool, most_in_packet: int = MOST_IN_PACKET
    ) -> Counters:
        """Return counters of instruments without messages."""
        first = InstrumentCount.new(from_the_start=from_the_start)
        return Counters(
            np.full(instruments, first.last, np.int64),
            np.zeros(instruments, np.uint8),
            np.full(instruments, first.proven, np.int64),
            np.zeros(instruments, np.uint8),
            most_in_packet,
        )

    def copy(self) -> Counters:
        """Return an independent copy."""
        return Counters(
            self.last.copy(), self.stale.copy(), self.proven.copy(), self.doubted.copy(),
            self.most_in_packet,
        )  # fmt: skip


@dataclass(slots=True)
class Followed:
    """Result of `follow`: steps with their flags, and the last count before each item."""

    steps: Codes
    before: Numbers

    @property
    def step(self) -> Codes:
        """Steps without the flags."""
        return self.steps & np.uint8(k.STEPS)

    def has(self, bit: int) -> Flags:
        """Return a mask of the items with a flag."""
        flags: Flags = (self.steps & np.uint8(bit)) != 0
        return flags


def follow(
    starts: Numbers,
    kinds: Codes,
    counts: Numbers,
    counters: Counters,
    missing: Numbers | None = None,
    covered: Numbers | None = None,
    sound: Codes | None = None,
) -> Followed:
    """Process the items of instruments, which extend from each start to the next, in order.

    ``missing``, ``covered`` and ``sound`` are the parameters of `InstrumentCount.follow` per item;
    without them, no packet is missing.
    """
    steps = np.empty(len(kinds), np.uint8)
    before = np.empty(len(kinds), np.int64)
    missing = np.zeros(len(kinds), np.int64) if missing is None else missing
    covered = missing if covered is None else covered
    sound = np.ones(len(kinds), np.uint8) if sound is None else sound
    k.follow_counts(
        starts, kinds, counts, missing, covered, sound, counters.last, counters.stale,
        counters.proven, counters.doubted, counters.most_in_packet, steps, before,
    )  # fmt: skip
    return Followed(steps, before)
