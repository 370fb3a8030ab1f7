"""The keys of walked messages as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.umdf import _kernels
from pregao.umdf.bulk import Numbers, Walked
from pregao.umdf.keys import KEY_SCHEMA, MESSAGE_KEY, key_type
from pregao.umdf.survey.lines import STREAMS

_STREAM_NAMES = pa.array([stream.value for stream in STREAMS], pa.string())
_GATHERED: dict[str, Any] = {
    name: np.dtype(key_type(name).to_pandas_dtype())
    for name in ("channel", *MESSAGE_KEY, "sending_time_ns", "capture_time_ns")
}


def keys(
    walked: Walked, rows: Numbers, capture_time_ns: Numbers
) -> dict[str, npt.NDArray[np.integer]]:
    """The numbers in the keys of the chosen messages; capture times are given by packet."""
    found = {name: np.empty(len(rows), kind) for name, kind in _GATHERED.items()}
    _kernels.gather_keys(
        rows, walked.packet, walked.index_in_packet, walked.channel, walked.sequence_version,
        walked.sequence_number, walked.sending_time_ns, capture_time_ns, *found.values(),
    )  # fmt: skip
    return found


def key_columns(
    walked: Walked,
    rows: Numbers,
    capture_time_ns: Numbers,
    stream: npt.NDArray[np.int8],
) -> list[Any]:
    """The columns of `KEY_SCHEMA` of some messages; times and stream numbers are given by packet.

    A heartbeat has no sequence number, and a capture may have no times: both are null.
    """
    found: dict[str, Any] = dict(keys(walked, rows, capture_time_ns))
    streams = pa.array(stream[walked.packet[rows]])
    found["stream"] = pa.DictionaryArray.from_arrays(streams, _STREAM_NAMES)
    for name in ("sequence_number", "capture_time_ns"):
        found[name] = _zero_is_null(found[name])
    return [pa.array(found[name]) for name in KEY_SCHEMA.names]


def _zero_is_null(numbers: Numbers) -> Any:
    zero = numbers == 0
    return pa.array(numbers, mask=zero if zero.any() else None)
