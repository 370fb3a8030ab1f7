"""Types of the numpy arrays that columns and kernels use, and their conversion to Arrow.

`pa.array`, `pa.scalar` and comparisons with Python values import pandas first if it is installed,
which takes longer than most commands: code that starts with a command uses these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Uint8Array = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]


def arrow_numbers(values: npt.NDArray[Any], null: BoolArray | None = None) -> Any:
    """Return numbers or truth values as an Arrow array of their type; ``null`` marks nulls."""
    import pyarrow as pa

    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def arrow_texts(texts: Sequence[str]) -> Any:
    """Return texts as an Arrow array."""
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)
