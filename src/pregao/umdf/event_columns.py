"""Columnar form of `pregao.umdf.events`, for buffers of walked packets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.sbe.model import MessageTemplate
from pregao.umdf import _sequencing_kernels as k
from pregao.umdf.bulk_decoder import BulkDecoder, MessageKind, WalkedPackets, kind_of
from pregao.umdf.events import ends_event, flags_at

NO_EVENT = -1
"""Event of a message outside the incremental streams."""


def flags_offset(template_id: int, message: MessageTemplate | None) -> int:
    """Return the offset of the event flags for a kernel, or its constant for templates without."""
    offset = None if message is None else flags_at(message)
    if offset is not None:
        return offset
    return k.FLAGS_ABSENT if ends_event(template_id, None) else k.NEVER_LAST


class EventColumns:
    """Numbers the events of walked packets; caches the offset of the flags of each kind."""

    def __init__(self, decoder: BulkDecoder) -> None:
        self._decoder = decoder
        self._known: dict[tuple[int, int, int], int] = {}

    def number(self, walked: WalkedPackets, channels: Sequence[int]) -> Int64Array:
        """Return the event of each message, NO_EVENT outside the incremental streams.

        The incremental packets come first, in sequence and without duplicates, grouped by channel;
        ``channels`` has the number of packets of each group.
        """
        events = np.full(len(walked), NO_EVENT, np.int64)
        if not channels:
            return events
        flag_of, flag_at = self._flags(walked)
        ends = np.cumsum(channels)
        bounds = np.searchsorted(walked.packet, [0, *ends.tolist()]).tolist()
        for first, last in itertools.pairwise(bounds):
            k.number_events(
                walked.buffer, walked.body, walked.end, walked.block_length, walked.packet,
                walked.index_in_packet, flag_of, flag_at, first, last,
                walked.sequence_version, walked.sequence_number, events,
            )  # fmt: skip
        return events

    def _flags(self, walked: WalkedPackets) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return a label of each message, and the offset of the flags for each label."""
        if walked.found >= 0:
            flag_at = np.empty(len(walked.known), np.int32)
            for label in range(1, walked.found + 1):
                flag_at[label] = self._offset(kind_of(int(walked.known[label])))
            return walked.label, flag_at
        flag_at = np.empty(len(walked), np.int32)  # noise: too many kinds
        for kind in walked.kinds():
            flag_at[kind.rows] = self._offset(kind)
        return np.arange(len(walked), dtype=np.int32), flag_at

    def _offset(self, kind: MessageKind) -> int:
        """Return the offset of the event flags in the block of such messages."""
        key = (kind.schema_id, kind.template_id, kind.version)
        found = self._known.get(key)
        if found is None:
            found = flags_offset(kind.template_id, self._decoder.template(kind))
            if len(self._known) < 4096:  # the numbers come from the wire: bound the cache
                self._known[key] = found
        return found
