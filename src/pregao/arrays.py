"""Types of the numpy arrays that columns and kernels use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Uint8Array = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]
