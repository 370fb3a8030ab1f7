"""The keys of decoded messages as columns: channel, stream, sequence, place, times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.umdf.bulk import Numbers, Walked
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
    packets = walked.packet[rows]
    numbers = walked.sequence_number[packets].astype(np.int64)
    times = capture_time_ns[packets]
    return [
        pa.array(walked.channel[packets].astype(np.int16)),
        pa.DictionaryArray.from_arrays(pa.array(stream[packets]), _STREAM_NAMES),
        pa.array(walked.sequence_version[packets].astype(np.int32)),
        _zero_is_null(numbers),
        pa.array(walked.index_in_packet[rows]),
        _zero_is_null(times),
        pa.array(walked.sending_time_ns[packets]),
    ]


def _zero_is_null(numbers: Numbers) -> Any:
    zero = numbers == 0
    return pa.array(numbers, mask=zero if zero.any() else None)
