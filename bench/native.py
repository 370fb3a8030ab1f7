"""C reference implementations, compiled with the C compiler on the PATH."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np


def compiled(name: str) -> ctypes.CDLL | None:
    """Compile and load a C file of this folder; return None without a C compiler."""
    compiler = next(
        (found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None
    )
    if compiler is None:
        return None
    source = Path(__file__).with_name(name)
    library = Path(tempfile.mkdtemp()) / "native.so"
    subprocess.run(
        [compiler, "-O3", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    return ctypes.CDLL(str(library))


def order_columns(buffer: np.ndarray, positions: np.ndarray) -> Callable[[], int] | None:
    """Return a C function that does the kernel's work, or None without a C compiler."""
    library = compiled("native.c")
    if library is None:
        return None
    function = library.order_columns
    count = len(positions)
    names = np.zeros(512, np.int16)
    small = [np.empty(count, np.int16) for _ in range(3)]
    wide = [np.empty(count, np.int64) for _ in range(9)]
    bits = np.empty(8 * (count // 8 + 1), np.uint8)
    outputs: list[np.ndarray] = [wide[0], small[0], small[1], small[2], *wide[1:], bits]
    arguments = [
        ctypes.c_void_p(buffer.ctypes.data),
        ctypes.c_void_p(positions.ctypes.data),
        ctypes.c_int64(count),
        ctypes.c_void_p(names.ctypes.data),
        *[ctypes.c_void_p(output.ctypes.data) for output in outputs],
    ]

    def work() -> int:
        assert len(outputs) == 13  # keeps the arrays alive: C writes into them
        assert len(names) == 512
        return int(function(*arguments))

    return work
