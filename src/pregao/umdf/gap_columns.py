"""The rule of `pregao.umdf.gaps` for whole columns of items, when all of a day is at hand."""

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
"""A bit beside the step: the instrument was stale before the item and is not behind it."""
DOUBTED = k.DOUBTED
"""A bit beside the step: from the item on the instrument is unconfirmed."""
CONFIRMED = k.CONFIRMED
"""A bit beside the step: the item ends that."""


@dataclass(slots=True)
class Counters:
    """The counters of some instruments as columns; they go on from call to call."""

    last: Numbers
    """The last count; below 0 what is said of instruments without one."""
    stale: Codes
    proven: Numbers
    """How many packets were missing up to the last proof."""
    doubted: Codes
    """Were packets missing behind it?"""
    most_in_packet: int = MOST_IN_PACKET

    @staticmethod
    def new(
        instruments: int, *, from_the_start: bool, most_in_packet: int = MOST_IN_PACKET
    ) -> Counters:
        """Counters of instruments of which nothing has come."""
        first = InstrumentCount.new(from_the_start=from_the_start)
        return Counters(
            np.full(instruments, first.last, np.int64),
            np.zeros(instruments, np.uint8),
            np.full(instruments, first.proven, np.int64),
            np.zeros(instruments, np.uint8),
            most_in_packet,
        )

    def copy(self) -> Counters:
        """The same counters, apart."""
        return Counters(
            self.last.copy(), self.stale.copy(), self.proven.copy(), self.doubted.copy(),
            self.most_in_packet,
        )  # fmt: skip


@dataclass(slots=True)
class Followed:
    """What came of the items: steps with bits beside them, and the last count before each."""

    steps: Codes
    before: Numbers

    @property
    def step(self) -> Codes:
        """The steps without the bits."""
        return self.steps & np.uint8(k.STEPS)

    def has(self, bit: int) -> Flags:
        """Which items have a bit beside their step."""
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
    """Follow the items of instruments, which are from each start to the next, in order.

    ``missing``, ``covered`` and ``sound`` are what `InstrumentCount.follow` says of each item;
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
