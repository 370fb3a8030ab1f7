"""What the options of a read choose, decided on packets and wire bytes before any decoding.

The conditions of a query are not taken over: Spark keeps those that a source once took on the
table itself, and every later use of the same DataFrame would be filtered by them too. Options
belong to the DataFrame, and Spark applies a query's conditions to the rows that they leave.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.errors import UsageError
from pregao.lake.source import _kernels
from pregao.lake.source.request import PACKETS, RANGES, ReadRequest
from pregao.lake.source.shapes import Shape, shape_of
from pregao.sbe.model import Message
from pregao.sbe.values import Reading, readings
from pregao.schemas import Registry
from pregao.umdf.bulk import MessageKind, Walked
from pregao.umdf.survey import message_of

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Selection:
    """Which packets and messages a read is about."""

    def __init__(self, request: ReadRequest) -> None:
        self._streams = request.streams
        self._channels = request.channels
        self._from_ns = request.from_ns
        self._to_ns = request.to_ns
        self._registry: Registry = request.registry()
        self._securities: Numbers | None = None
        if request.security_ids is not None:
            self._securities = np.array(request.security_ids, np.uint64).view(np.int64)

    @property
    def of_messages(self) -> bool:
        """Does it choose among the messages of a packet?"""
        return self._securities is not None

    def flows(self, streams: list[str]) -> Flags:
        """Which flows are wanted, by the streams that they carry."""
        if self._streams is None:
            return np.ones(len(streams), np.bool_)
        return np.array([stream in self._streams for stream in streams], np.bool_)

    def packets(self, channel: npt.NDArray[np.int16], time_ns: Numbers) -> Flags | None:
        """Which packets are wanted; None is all. One without channel or time is not chosen by it.

        A channel below 0 and a time of 0 are absent.
        """
        wanted: Flags | None = None
        if self._channels is not None:
            wanted = np.isin(channel, np.array(self._channels, np.int16))
        for bound, holds in ((self._from_ns, np.greater_equal), (self._to_ns, np.less)):
            if bound is not None:
                inside: Any = holds(time_ns, bound) & (time_ns != 0)
                wanted = inside if wanted is None else wanted & inside
        return wanted

    def messages(self, walked: Walked, kind: MessageKind) -> Numbers:
        """The messages of a kind that are about a wanted instrument."""
        rows: Numbers = kind.rows
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


def security_reading(message: Message) -> Reading | None:
    """The instrument of a message, if it is a number of eight bytes."""
    for reading in readings(message):
        if reading.column == "security_id":
            return reading if reading.size == 8 and reading.single else None
    return None


@lru_cache(maxsize=16)
def check_selection(request: ReadRequest) -> None:
    """Refuse a selection that rows of this shape cannot have."""
    if request.security_ids is None:
        return
    shape: Shape = shape_of(request)
    if shape.name in (PACKETS, RANGES):
        raise UsageError(f"The option securityId chooses messages; rows of {shape.name} have none.")
    if shape.messages and all(security_reading(message) is None for message in shape.messages):
        raise UsageError(
            f"The option securityId does not fit: messages of {shape.name} name no instrument."
        )
