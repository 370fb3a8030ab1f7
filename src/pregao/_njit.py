"""How kernels are compiled: numba with a cache directory of our own, and unaligned loads.

Kernels live in the ``_kernels.py`` of their folder. They take flat arrays and give flat arrays.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _writable(folder: Path) -> bool:
    """Can files be made in this folder (which is created if need be)?"""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_directory() -> Path | None:
    """The first writable of: what the user named, the user's cache folder, the temporary folder."""
    candidates = []
    if named := os.environ.get("PREGAO_CACHE_DIR"):
        candidates.append(Path(named) / "numba")
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        candidates.append(Path(named))
    with contextlib.suppress(RuntimeError):  # no home directory at all
        candidates.append(
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pregao" / "numba"
        )
    candidates.append(Path(tempfile.gettempdir()) / f"pregao-{os.getuid()}" / "numba")
    return next((folder for folder in candidates if _writable(folder)), None)


_CACHE = cache_directory()
if _CACHE is not None:
    setattr(numba.config, "CACHE_DIR", str(_CACHE))  # noqa: B010 - the module computes its names


def njit(function: Callable[..., Any]) -> Any:
    """Compile a kernel: cached where a cache can be kept, without the interpreter's lock."""
    return numba.njit(function, cache=_CACHE is not None, nogil=True)


def _loader(width: int, result: Any) -> Any:
    """An intrinsic that reads ``width`` bytes at any address of a byte array, little-endian."""

    @intrinsic
    def load(typingctx: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
        if not (isinstance(array, types.Array) and array.dtype == types.uint8):
            return None
        signature = result(array, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            buffer = context.make_array(signature.args[0])(context, builder, arguments[0])
            word = ir.IntType(8 * width)
            address = builder.gep(buffer.data, [arguments[1]])
            pointer = builder.bitcast(address, word.as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value

        return signature, codegen

    return load


load_u8 = _loader(1, types.uint8)
load_u16 = _loader(2, types.uint16)
load_u32 = _loader(4, types.uint32)
load_i32 = _loader(4, types.int32)
load_u64 = _loader(8, types.uint64)
load_i64 = _loader(8, types.int64)


def _prefetcher(writing: int) -> Any:
    @intrinsic
    def fetch(typingctx: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
        if not (isinstance(array, types.Array) and array.dtype == types.uint8):
            return None
        signature = types.void(array, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            buffer = context.make_array(signature.args[0])(context, builder, arguments[0])
            address = builder.gep(buffer.data, [arguments[1]])
            number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            name = "llvm.prefetch.p0" if address.type.is_opaque else "llvm.prefetch.p0i8"
            known = builder.module.globals.get(name)
            function = ir.Function(builder.module, kind, name) if known is None else known
            # To be used again soon; data, not code.
            builder.call(function, [address, number(writing), number(3), number(1)])
            return context.get_dummy_value()

        return signature, codegen

    return fetch


# Ask for the cache line at a place of a byte array, to read or to write it soon. Any place will
# do, also one outside.
prefetch = _prefetcher(0)
prefetch_to_write = _prefetcher(1)
