"""The keys of decoded messages as columns: channel, stream, sequence, place, times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.umdf.bulk import Numbers, Walked, keys
from pregao.umdf.survey.lines import STREAMS

KEY_SCHEMA = pa.schema(
    [
        pa.field("channel", pa.int16()),
        pa.field("stream", pa.dictionary(pa.int8(), pa.string())),
        pa.field("sequence_version", pa.int32()),
        pa.field("sequence_number", pa.int64()),
        pa.field("index_in_packet", pa.int32()),
        pa.field("capture_time_ns", pa.int64()),
        pa.field("sending_time_ns", pa.int64()),
    ]
)
"""The columns that stand before a message's own in every table."""

_STREAM_NAMES = pa.array([stream.value for stream in STREAMS], pa.string())


def key_columns(
    walked: Walked,
    rows: Numbers,
    capture_time_ns: Numbers,
    stream: npt.NDArray[np.int8],
) -> list[Any]:
    """The key columns of some messages; times and stream numbers are given by packet.

    A heartbeat has no sequence number, and a capture may have no times: both are null.
    """
    found = keys(walked, rows, capture_time_ns)
    streams = pa.array(stream[walked.packet[rows]])
    return [
        pa.array(found.channel),
        pa.DictionaryArray.from_arrays(streams, _STREAM_NAMES),
        pa.array(found.sequence_version),
        _zero_is_null(found.sequence_number),
        pa.array(found.index_in_packet),
        _zero_is_null(found.capture_time_ns),
        pa.array(found.sending_time_ns),
    ]


def _zero_is_null(numbers: Numbers) -> Any:
    zero = numbers == 0
    return pa.array(numbers, mask=zero if zero.any() else None)
