"""What stands before a message's own fields in each protocol: columns, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pregao.schemas import ENTRYPOINT_SCHEMA_ID
from pregao.umdf.keys import KEY_SCHEMA, PACKET_KEY, key_type


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The key columns of a protocol's messages."""

    schema: Any
    """Of the files that hold tables, and of JSON."""
    csv: tuple[tuple[str, int], ...]
    """What CSV has of it: the name, and which of the columns."""
    captured: int
    """Which column is the time of capture."""
    text: Callable[[Sequence[Any], Callable[[Any], Any]], list[Any]]
    """What a line of text has behind the time; numbers are written by a function that is given."""


def _packet_text(keys: Sequence[Any], numbers: Callable[[Any], Any]) -> list[Any]:
    channel, stream, version, number, index, *_ = keys
    place = pc.binary_join_element_wise(
        numbers(version), ":", pc.coalesce(numbers(number), "-"), ".", numbers(index), ""
    )
    return [numbers(channel), stream.cast(pa.string()), place]


def _session_text(keys: Sequence[Any], numbers: Callable[[Any], Any]) -> list[Any]:
    sender, flow, number, *_ = keys
    return [
        pc.coalesce(sender.cast(pa.string()), "-"),
        flow.cast(pa.string()),
        pc.coalesce(numbers(number), "-"),
    ]


_NAMES = pa.dictionary(pa.int32(), pa.string())

UMDF_KEYS = KeyForm(
    KEY_SCHEMA,
    tuple(zip(("channel_id", *PACKET_KEY), (0, 2, 3), strict=True)),
    KEY_SCHEMA.names.index("capture_time_ns"),
    _packet_text,
)
ENTRYPOINT_KEYS = KeyForm(
    pa.schema(
        [
            pa.field("sender", _NAMES),
            pa.field("flow", _NAMES),
            *(
                pa.field(name, key_type(name))
                for name in ("sequence_number", "capture_time_ns", "sending_time_ns")
            ),
        ]
    ),
    (("sender", 0), ("flow", 1), ("sequence_number", 2)),
    3,
    _session_text,
)


def key_form(schema_id: int) -> KeyForm:
    """The form of the keys of messages with that schema id."""
    return ENTRYPOINT_KEYS if schema_id == ENTRYPOINT_SCHEMA_ID else UMDF_KEYS


def session_keys(
    sender: npt.NDArray[np.int32],
    senders: Sequence[str],
    flow: npt.NDArray[np.int32],
    flows: Sequence[str],
    numbers: Sequence[npt.NDArray[np.int64]],
) -> list[Any]:
    """The key columns of EntryPoint messages; zeros and senders below zero are null.

    ``numbers`` are the sequence numbers, the times of capture and those of sending.
    """
    columns: list[Any] = [
        pa.DictionaryArray.from_arrays(
            pa.array(sender, pa.int32(), mask=sender < 0), pa.array(senders, pa.string())
        ),
        pa.DictionaryArray.from_arrays(pa.array(flow, pa.int32()), pa.array(flows, pa.string())),
    ]
    return columns + [pa.array(values, pa.int64(), mask=values == 0) for values in numbers]
