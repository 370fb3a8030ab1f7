"""Key columns before a message's own fields in each protocol, and their text form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID
from pregao.umdf.keys import KEY_NAMES, PACKET_KEY, key_schema, key_type


@dataclass(frozen=True, slots=True)
class MessageKeyFormat:
    """The key columns of a protocol's messages."""

    names: tuple[str, ...]
    columns: Callable[[], Any]
    """Returns the columns with their types, for table files."""
    csv: tuple[tuple[str, int], ...]
    """Key columns in CSV: the name, and the index of the column."""
    captured: int
    """Index of the capture time column."""
    text: Callable[[Sequence[Any], Callable[[Any], Any]], list[Any]]
    """Returns the text after the time; the given function formats numbers."""

    @property
    def schema(self) -> Any:
        """The columns as an Arrow schema."""
        return self.columns()


def _packet_text(keys: Sequence[Any], numbers: Callable[[Any], Any]) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    channel, stream, version, number, index, *_ = keys
    message_key = pc.binary_join_element_wise(
        numbers(version), ":", pc.coalesce(numbers(number), "-"), ".", numbers(index), ""
    )
    return [numbers(channel), stream.cast(pa.string()), message_key]


def _session_text(keys: Sequence[Any], numbers: Callable[[Any], Any]) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    sender, flow, number, *_ = keys
    return [
        pc.coalesce(sender.cast(pa.string()), "-"),
        flow.cast(pa.string()),
        pc.coalesce(numbers(number), "-"),
    ]


_SENDER = ("sender", "flow")
_NUMBERS = ("sequence_number", "capture_time_ns", "sending_time_ns")


@cache
def _session_schema() -> Any:
    import pyarrow as pa

    names = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            *(pa.field(name, names) for name in _SENDER),
            *(pa.field(name, key_type(name)) for name in _NUMBERS),
        ]
    )


UMDF_KEYS = MessageKeyFormat(
    KEY_NAMES,
    key_schema,
    tuple(zip(("channel_id", *PACKET_KEY), (0, 2, 3), strict=True)),
    KEY_NAMES.index("capture_time_ns"),
    _packet_text,
)
ENTRYPOINT_KEYS = MessageKeyFormat(
    (*_SENDER, *_NUMBERS),
    _session_schema,
    (("sender", 0), ("flow", 1), ("sequence_number", 2)),
    3,
    _session_text,
)


def key_form(schema_id: int) -> MessageKeyFormat:
    """Return the key form of messages with a schema id."""
    return ENTRYPOINT_KEYS if schema_id == ENTRYPOINT_SCHEMA_ID else UMDF_KEYS


def session_keys(
    sender: npt.NDArray[np.int32],
    senders: Sequence[str],
    flow: npt.NDArray[np.int32],
    flows: Sequence[str],
    numbers: Sequence[npt.NDArray[np.int64]],
) -> list[Any]:
    """Return the key columns of EntryPoint messages; zeros and negative senders are null.

    ``numbers`` are the sequence numbers, the capture times and the sending times.
    """
    import pyarrow as pa

    columns: list[Any] = [
        pa.DictionaryArray.from_arrays(
            pa.array(sender, pa.int32(), mask=sender < 0), pa.array(senders, pa.string())
        ),
        pa.DictionaryArray.from_arrays(pa.array(flow, pa.int32()), pa.array(flows, pa.string())),
    ]
    return columns + [pa.array(values, pa.int64(), mask=values == 0) for values in numbers]


def session_key_values(
    sender: npt.NDArray[np.int32],
    senders: Sequence[str],
    flow: npt.NDArray[np.int32],
    flows: Sequence[str],
    numbers: Sequence[npt.NDArray[np.int64]],
) -> list[list[Any]]:
    """Return the columns of `session_keys` as lists of plain values."""
    return [
        [None if each < 0 else senders[each] for each in sender.tolist()],
        [flows[each] for each in flow.tolist()],
        *([each or None for each in values.tolist()] for values in numbers),
    ]
