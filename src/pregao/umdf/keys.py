"""The key of a message: names, types and meanings of the columns that say where it was sent.

Every table of messages takes its key from here, and so does who reads one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

PACKET_KEY = ("sequence_version", "sequence_number")
"""What names a packet of a stream."""
MESSAGE_KEY = (*PACKET_KEY, "index_in_packet")
"""What names a message of a stream, and sorts as the stream goes within a version."""
STREAM_KEY = ("channel", "stream")
"""What names a stream."""

KEY_NAMES = (*STREAM_KEY, *MESSAGE_KEY, "capture_time_ns", "sending_time_ns")
"""What comes before a message's own fields."""

KEY_TYPES = {
    "channel": "int16",
    "stream": "string",
    "sequence_version": "int32",
    "sequence_number": "int64",
    "index_in_packet": "int32",
    "sending_time_ns": "int64",
    "capture_time_ns": "int64",
    "schema_version": "int32",
}
"""The types of columns, as Arrow names them."""
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
    import pyarrow as pa

    return pa.type_for_alias(KEY_TYPES[name])


def key_field(name: str, meaning: str | None = None) -> Any:
    """A column of the key as a table declares it, with what it means there."""
    import pyarrow as pa

    comment = _MEANINGS[name] if meaning is None else meaning
    return pa.field(name, key_type(name), metadata={"comment": comment})


def key_fields(names: Iterable[str]) -> list[Any]:
    """Columns of the key as tables declare them."""
    return [key_field(name) for name in names]


@cache
def key_schema() -> Any:
    """The columns before a message's own in the files that `pregao decode` writes."""
    import pyarrow as pa

    names = pa.dictionary(pa.int8(), pa.string())
    return pa.schema(
        [pa.field(name, names if name == "stream" else key_type(name)) for name in KEY_NAMES]
    )
