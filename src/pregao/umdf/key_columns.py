"""Keys of walked messages as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.umdf import _kernels
from pregao.umdf.bulk_decoder import WalkedPackets
from pregao.umdf.keys import KEY_NAMES, KEY_TYPES, MESSAGE_KEY
from pregao.umdf.survey.lines import STREAMS

_STREAM_NAMES = [stream.value for stream in STREAMS]
_NULL_IS_ZERO = ("sequence_number", "capture_time_ns")
_GATHERED: dict[str, Any] = {
    name: np.dtype(KEY_TYPES[name])
    for name in ("channel", *MESSAGE_KEY, "sending_time_ns", "capture_time_ns")
}


def keys(
    walked: WalkedPackets, rows: Int64Array, capture_time_ns: Int64Array
) -> dict[str, npt.NDArray[np.integer]]:
    """Gather the numeric key columns of the chosen messages; capture times are per packet."""
    found = {name: np.empty(len(rows), kind) for name, kind in _GATHERED.items()}
    _kernels.gather_keys(
        rows, walked.packet, walked.index_in_packet, walked.channel, walked.sequence_version,
        walked.sequence_number, walked.sending_time_ns, capture_time_ns, *found.values(),
    )  # fmt: skip
    return found


def key_columns(
    walked: WalkedPackets,
    rows: Int64Array,
    capture_time_ns: Int64Array,
    stream: npt.NDArray[np.int8],
) -> list[Any]:
    """Return the columns of `key_schema` for some messages; times and streams are per packet.

    A heartbeat has no sequence number, and a capture may have no times: both are null.
    """
    import pyarrow as pa

    found: dict[str, Any] = dict(keys(walked, rows, capture_time_ns))
    streams = pa.array(stream[walked.packet[rows]])
    found["stream"] = pa.DictionaryArray.from_arrays(streams, pa.array(_STREAM_NAMES, pa.string()))
    for name in _NULL_IS_ZERO:
        zero = found[name] == 0
        found[name] = pa.array(found[name], mask=zero if zero.any() else None)
    return [pa.array(found[name]) for name in KEY_NAMES]


def key_values(
    walked: WalkedPackets,
    rows: Int64Array,
    capture_time_ns: Int64Array,
    stream: npt.NDArray[np.int8],
) -> list[list[Any]]:
    """Return the columns of `key_columns` as lists of plain values."""
    found: dict[str, list[Any]] = {
        name: column.tolist() for name, column in keys(walked, rows, capture_time_ns).items()
    }
    found["stream"] = [_STREAM_NAMES[number] for number in stream[walked.packet[rows]].tolist()]
    for name in _NULL_IS_ZERO:
        found[name] = [value or None for value in found[name]]
    return [found[name] for name in KEY_NAMES]
