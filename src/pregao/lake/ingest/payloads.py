"""The payloads of a window that are to be walked, and what every protocol makes of them alike: the
key columns of messages, and the rows of rejects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.lake.ingest import _kernels
from pregao.lake.ingest.accounts import WindowRows
from pregao.lake.ingest.window import Flags, Numbers, Packets, Role, days_of
from pregao.umdf.keys import key_type

NO_EVENT = -1


@dataclass(slots=True)
class Names:
    """What packets are named by in tables: roles and captures, by their numbers."""

    roles: list[Role]
    captures: Any
    """The ids of captures, as an Arrow array."""

    # Roles may be added between windows.

    def streams(self, numbers: npt.NDArray[np.int32]) -> Any:
        """The streams of the roles with these numbers, as a column."""
        return _named_once([role.stream for role in self.roles], numbers)

    def feeds(self, numbers: npt.NDArray[np.int32]) -> Any:
        """The feeds of the roles with these numbers, as a column."""
        return _named_once([role.feed for role in self.roles], numbers)

    def flows(self, numbers: npt.NDArray[np.int32]) -> Any:
        """The flows of the roles with these numbers, as a column."""
        return _named_once([role.destination for role in self.roles], numbers)

    def capture_ids(self, numbers: npt.NDArray[np.int32]) -> Any:
        """The ids of the captures with these numbers, as a column."""
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self.captures)


def _named_once(names: Sequence[str], numbers: npt.NDArray[np.int32]) -> Any:
    """A column of names by their numbers, in which each name is kept once.

    Parquet files would hold every row's name in full if the dictionary had one twice.
    """
    known = {name: code for code, name in enumerate(dict.fromkeys(names))}
    codes = np.array([known[name] for name in names], np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes[numbers]), pa.array(list(known), pa.string())
    )


@dataclass(slots=True)
class Payloads:
    """The payloads of a window that are to be walked, one behind the other in a buffer.

    First come those of the arbitrated streams, channel by channel in the order of their sequence,
    each once; then all others as they were captured.
    """

    buffer: npt.NDArray[np.uint8]
    offset: Numbers
    length: npt.NDArray[np.int32]
    packets: Packets
    """All packets of the window."""
    chosen: Numbers
    """Of each payload: which of the packets it is."""
    emit: Flags
    """Is it decoded here? The others are there because they tell where an event began."""
    channels: Sequence[int]
    """How many payloads the arbitrated channels have, one after the other."""
    names: Names
    result: WindowRows = field(default_factory=WindowRows)
    """Where rows and counts go."""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def days(self) -> Numbers:
        """The day of each payload."""
        return days_of(self.packets)[self.chosen]

    def key_columns(
        self,
        rows: Numbers,
        payload_of: npt.NDArray[np.integer],
        index_of: npt.NDArray[np.integer],
        events: Numbers | None,
        schema_version: int,
    ) -> list[Any]:
        """The columns of `schemas.KEY` of some messages, of which there is at least one.

        ``rows`` says which they are of those that the other columns tell about.
        """
        packets = self.packets
        count = len(rows)
        index, packet = np.empty((2, count), np.int32)
        number, event, sending, time = np.empty((4, count), np.int64)
        if events is None:
            events = np.full(len(payload_of), NO_EVENT, np.int64)
        _kernels.gather_message_keys(
            rows, payload_of, index_of, events, self.chosen, packets.number,
            packets.sending_time_ns, packets.time_ns, packet, number, index, event, sending, time,
        )  # fmt: skip

        def of_packets(values: npt.NDArray[Any], *, same: bool) -> npt.NDArray[Any]:
            return np.full(count, values[packet[0]], values.dtype) if same else values[packet]

        same = packets.same
        role = of_packets(packets.role, same=same.role)
        capture = of_packets(packets.capture, same=same.capture)
        difference = pa.nulls(count, pa.int64())
        if not same.difference or packets.difference_ns[packet[0]] >= 0:
            values = packets.difference_ns[packet]
            difference = null_where(values, values < 0)
        return [
            pa.array(of_packets(packets.channel, same=same.channel)),
            self.names.streams(role),
            pa.array(of_packets(packets.version, same=same.version)),
            null_where(number, number == 0),
            pa.array(index),
            null_where(event, event < 0),
            null_where(sending, sending == 0),
            pa.array(time),
            self.names.feeds(role),
            difference,
            self.names.capture_ids(capture),
            pa.repeat(pa.scalar(schema_version, key_type("schema_version")), count),
        ]

    def reject(
        self, payload: int, index_in_packet: int | None, start: int, end: int, reason: str
    ) -> None:
        """Keep bytes of a payload, named by where they are in the buffer, that make no sense."""
        packets = self.packets
        packet = int(self.chosen[payload])
        role = self.names.roles[int(packets.role[packet])]
        known = int(packets.channel[packet]) >= 0
        self.result.sums.reasons[reason] += 1
        row = {
            "capture_id": self.names.captures[int(packets.capture[packet])].as_py(),
            "position": int(packets.position[packet]),
            "capture_time_ns": int(packets.time_ns[packet]),
            "destination": role.destination,
            "channel": int(packets.channel[packet]) if known else None,
            "stream": role.stream,
            "sequence_version": int(packets.version[packet]) if known else None,
            "sequence_number": int(packets.number[packet]) or None,
            "index_in_packet": index_in_packet,
            "offset": start - int(self.offset[payload]),
            "reason": reason,
            "bytes": self.buffer[start:end].tobytes(),
        }
        day = int(days_of(packets)[packet])
        self.result.rejects.setdefault(day, []).append(row)


def null_where(values: npt.NDArray[Any], null: Flags) -> Any:
    """Values as an Arrow array, null where it is said."""
    return pa.array(values, mask=null if null.any() else None)
