"""Columnar form of `pregao.umdf.gaps`, for a complete day of items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.umdf import _sequencing_kernels as k
from pregao.umdf.gaps import MAX_MESSAGES_PER_PACKET, InstrumentCount

HEALED = k.HEALED
"""Flag next to the step: the instrument was stale before the item and is not after it."""
DOUBTED = k.DOUBTED
"""Flag next to the step: the instrument is unconfirmed from the item on."""
CONFIRMED = k.CONFIRMED
"""Flag next to the step: the item confirms the instrument."""


@dataclass(slots=True)
class GapCounters:
    """Counters of instruments as columns; they carry over between calls."""

    last: Int64Array
    """Last counts; if negative, constants for instruments without a count."""
    stale: Uint8Array
    proven: Int64Array
    """Missing packets up to the last proof."""
    doubted: Uint8Array
    """Whether packets are missing since the last proof."""
    max_messages_per_packet: int = MAX_MESSAGES_PER_PACKET

    @staticmethod
    def new(
        instruments: int,
        *,
        from_the_start: bool,
        max_messages_per_packet: int = MAX_MESSAGES_PER_PACKET,
    ) -> GapCounters:
        """Return counters of instruments without messages."""
        first = InstrumentCount.new(from_the_start=from_the_start)
        return GapCounters(
            np.full(instruments, first.last, np.int64),
            np.zeros(instruments, np.uint8),
            np.full(instruments, first.proven, np.int64),
            np.zeros(instruments, np.uint8),
            max_messages_per_packet,
        )

    def copy(self) -> GapCounters:
        """Return an independent copy."""
        return GapCounters(
            self.last.copy(), self.stale.copy(), self.proven.copy(), self.doubted.copy(),
            self.max_messages_per_packet,
        )  # fmt: skip


@dataclass(slots=True)
class GapSteps:
    """Result of `follow`: steps with their flags, and the last count before each item."""

    steps: Uint8Array
    before: Int64Array

    @property
    def step(self) -> Uint8Array:
        """Steps without the flags."""
        return self.steps & np.uint8(k.STEPS)

    def has(self, bit: int) -> BoolArray:
        """Return a mask of the items with a flag."""
        flags: BoolArray = (self.steps & np.uint8(bit)) != 0
        return flags


def follow(
    starts: Int64Array,
    kinds: Uint8Array,
    counts: Int64Array,
    counters: GapCounters,
    missing: Int64Array | None = None,
    covered: Int64Array | None = None,
    sound: Uint8Array | None = None,
) -> GapSteps:
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
        counters.proven, counters.doubted, counters.max_messages_per_packet, steps, before,
    )  # fmt: skip
    return GapSteps(steps, before)
