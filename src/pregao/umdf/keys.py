"""The key of a message: names, types and comments of the columns that identify it.

All tables of messages, and their readers, take the key columns from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

PACKET_KEY = ("sequence_version", "sequence_number")
"""Columns that identify a packet of a stream."""
MESSAGE_KEY = (*PACKET_KEY, "index_in_packet")
"""Columns that identify a message of a stream, and sort in stream order within a version."""
STREAM_KEY = ("channel", "stream")
"""Columns that identify a stream."""

KEY_NAMES = (*STREAM_KEY, *MESSAGE_KEY, "capture_time_ns", "sending_time_ns")
"""Columns before a message's own fields."""

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
"""Column types, by their Arrow names."""
_MEANINGS = {
    "channel": "Channel.",
    "stream": "Stream of the channel: incremental, snapshot, definition.",
    "sequence_version": "Sequence version of the packet.",
    "sequence_number": "Number of the packet; null for a heartbeat.",
    "index_in_packet": "Index of the message in its packet, from 0.",
    "sending_time_ns": "Sending time of the packet (T11).",
    "capture_time_ns": "Capture time of the packet.",
    "schema_version": "Schema version of the message.",
}


def key_type(name: str) -> Any:
    """Return the type of a key column."""
    import pyarrow as pa

    return pa.type_for_alias(KEY_TYPES[name])


def key_field(name: str, meaning: str | None = None) -> Any:
    """Return a key column as a table field, with its comment or another one."""
    import pyarrow as pa

    comment = _MEANINGS[name] if meaning is None else meaning
    return pa.field(name, key_type(name), metadata={"comment": comment})


def key_fields(names: Iterable[str]) -> list[Any]:
    """Return key columns as table fields."""
    return [key_field(name) for name in names]


@cache
def key_schema() -> Any:
    """Return the schema of the columns before a message's own in the files of `pregao decode`."""
    import pyarrow as pa

    names = pa.dictionary(pa.int8(), pa.string())
    return pa.schema(
        [pa.field(name, names if name == "stream" else key_type(name)) for name in KEY_NAMES]
    )
