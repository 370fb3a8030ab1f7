"""Selection of packets and messages by the options of a read, before any decoding.

The conditions of a query are not pushed down: Spark keeps the conditions that a source accepted on
the table itself, and they would filter every later use of the same DataFrame too. Options belong to
the DataFrame, and Spark applies a query's conditions to the remaining rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import BoolArray, Int64Array
from pregao.errors import UsageError
from pregao.lake.source import _kernels
from pregao.lake.source.request import PACKETS, RANGES, ReadRequest
from pregao.lake.source.shapes import RowShape, shape_of
from pregao.sbe.model import MessageTemplate
from pregao.sbe.value_specs import ValueSpec, readings
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import MessageKind, WalkedPackets
from pregao.umdf.survey.lines import message_of


class SourceSelection:
    """Selection of packets and messages."""

    def __init__(self, request: ReadRequest) -> None:
        self._streams = request.streams
        self._channels = request.channels
        self._from_ns = request.from_ns
        self._to_ns = request.to_ns
        self._registry: Registry = request.registry()
        self._securities: Int64Array | None = None
        if request.security_ids is not None:
            self._securities = np.array(request.security_ids, np.uint64).view(np.int64)

    @property
    def of_messages(self) -> bool:
        """Whether it selects among the messages of a packet."""
        return self._securities is not None

    def flows(self, streams: list[str]) -> BoolArray:
        """Return which flows are selected, by their streams."""
        if self._streams is None:
            return np.ones(len(streams), np.bool_)
        return np.array([stream in self._streams for stream in streams], np.bool_)

    def packets(self, channel: npt.NDArray[np.int16], time_ns: Int64Array) -> BoolArray | None:
        """Return which packets are selected; None for all.

        A packet without a channel (below 0) or a time (0) does not match a filter on it.
        """
        wanted: BoolArray | None = None
        if self._channels is not None:
            wanted = np.isin(channel, np.array(self._channels, np.int16))
        for bound, holds in ((self._from_ns, np.greater_equal), (self._to_ns, np.less)):
            if bound is not None:
                inside: Any = holds(time_ns, bound) & (time_ns != 0)
                wanted = inside if wanted is None else wanted & inside
        return wanted

    def messages(self, walked: WalkedPackets, kind: MessageKind) -> Int64Array:
        """Return the messages of a kind that are about a selected instrument."""
        rows: Int64Array = kind.rows
        if self._securities is None:
            return rows
        message = message_of(self._registry, kind.schema_id, kind.template_id, kind.version)
        reading = None if message is None else security_reading(message)
        if reading is None or kind.version < reading.since_version:
            return rows[:0]
        rows = rows[walked.block_length[rows] >= reading.end]
        numbers = np.empty(len(rows), np.int64)
        _kernels.gather_i64(walked.buffer, walked.body[rows] + reading.offset, numbers)
        wanted = np.isin(numbers, self._securities)
        if reading.null is not None:
            wanted &= numbers != np.uint64(reading.null).view(np.int64)
        return rows[wanted]


def security_reading(message: MessageTemplate) -> ValueSpec | None:
    """Return the field of a message's instrument, if it is an 8-byte integer."""
    for reading in readings(message):
        if reading.column == "security_id":
            return reading if reading.size == 8 and reading.single else None
    return None


@lru_cache(maxsize=16)
def check_selection(request: ReadRequest) -> None:
    """Raise `UsageError` for a selection that rows of this shape do not support."""
    if request.security_ids is None:
        return
    shape: RowShape = shape_of(request)
    if shape.name in (PACKETS, RANGES):
        raise UsageError(f"The option securityId selects messages; rows of {shape.name} have none.")
    if shape.messages and all(security_reading(message) is None for message in shape.messages):
        raise UsageError(
            f"The option securityId is not supported: {shape.name} messages name no instrument."
        )
