"""The key of a message: names, types and meanings of the columns that say where it was sent.

Every table of messages takes its key from here, and so does who reads one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

PACKET_KEY = ("sequence_version", "sequence_number")
"""What names a packet of a stream."""
MESSAGE_KEY = (*PACKET_KEY, "index_in_packet")
"""What names a message of a stream, and sorts as the stream goes within a version."""
STREAM_KEY = ("channel", "stream")
"""What names a stream."""

_TYPES = {
    "channel": pa.int16(),
    "stream": pa.string(),
    "sequence_version": pa.int32(),
    "sequence_number": pa.int64(),
    "index_in_packet": pa.int32(),
    "sending_time_ns": pa.int64(),
    "capture_time_ns": pa.int64(),
    "schema_version": pa.int32(),
}
_MEANINGS = {
    "channel": "Channel.",
    "stream": "Stream of the channel: incremental, snapshot, definition.",
    "sequence_version": "Sequence version of the packet.",
    "sequence_number": "Number of the packet; null for a heartbeat.",
    "index_in_packet": "Place of the message in its packet, from 0.",
    "sending_time_ns": "Sending time of the packet (T11).",
    "capture_time_ns": "When the packet was captured.",
    "schema_version": "Schema version that the message was sent in.",
}


def key_type(name: str) -> Any:
    """The type of a column of the key."""
    return _TYPES[name]


def key_field(name: str, meaning: str | None = None) -> Any:
    """A column of the key as a table declares it, with what it means there."""
    comment = _MEANINGS[name] if meaning is None else meaning
    return pa.field(name, _TYPES[name], metadata={"comment": comment})


def key_fields(names: Iterable[str]) -> list[Any]:
    """Columns of the key as tables declare them."""
    return [key_field(name) for name in names]


KEY_SCHEMA = pa.schema(
    [
        pa.field(name, pa.dictionary(pa.int8(), pa.string()) if name == "stream" else _TYPES[name])
        for name in (*STREAM_KEY, *MESSAGE_KEY, "capture_time_ns", "sending_time_ns")
    ]
)
"""The columns before a message's own in the files that `pregao decode` writes."""
