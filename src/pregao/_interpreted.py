"""Kernels run by the interpreter: the interface of `_compiled` without numba, 100 times slower.

Numbers behave as in compiled code. 64-bit numbers are NumPy's, which wrap around. Smaller ones are
Python's: compiled code widens them before arithmetic, NumPy would not.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

_WIDE = 8
"""Size in bytes of numbers that are used without widening."""


class _Inside(threading.local):
    """Whether a kernel is running in this thread; the kernels that it calls get prepared arrays."""

    yes = False


_inside = _Inside()


class _Narrow(np.ndarray[Any, Any]):
    """An array of small numbers whose items are Python numbers."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, np.ndarray) else found.item()


def _ready(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        narrow = argument.dtype.itemsize < _WIDE and argument.dtype.kind != "V"
        return argument.view(_Narrow) if narrow else argument
    return tuple(map(_ready, argument)) if isinstance(argument, tuple) else argument


def _given(result: Any) -> Any:
    if isinstance(result, _Narrow):
        return result.view(np.ndarray)
    return tuple(map(_given, result)) if isinstance(result, tuple) else result


def njit(function: Callable[..., Any]) -> Any:
    """Wrap a kernel, converting its arguments and results."""

    @functools.wraps(function)
    def kernel(*arguments: Any) -> Any:
        if _inside.yes:
            return function(*arguments)
        _inside.yes = True
        try:
            with np.errstate(over="ignore"):
                return _given(function(*map(_ready, arguments)))
        finally:
            _inside.yes = False

    return kernel


def njit_or(fallback: str) -> Callable[..., Any]:
    """Wrap a kernel for bulk work: calls the function of the same name in a NumPy module."""

    def chosen(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def kernel(*arguments: Any) -> Any:
            twin = getattr(importlib.import_module(fallback), function.__name__)
            return twin(*arguments)

        return kernel

    return chosen


def part(function: Callable[..., Any]) -> Any:
    """Return a function that only kernels call, unchanged."""
    return function


def _loader(code: str) -> Any:
    """Return a function that loads a number at any offset of a byte array, little-endian."""
    unpack = struct.Struct(f"<{code}").unpack_from

    def load(array: Any, position: int) -> Any:
        return unpack(array, position)[0]

    return load


def _wide_loader(code: str, kind: Any) -> Any:
    unpack = struct.Struct(f"<{code}").unpack_from

    def load(array: Any, position: int) -> Any:
        return kind(unpack(array, position)[0])

    return load


load_u8 = _loader("B")
load_u16 = _loader("H")
load_u32 = _loader("I")
load_i32 = _loader("i")
load_u64 = _wide_loader("Q", np.uint64)
load_i64 = _wide_loader("q", np.int64)

_WORD = struct.Struct("<Q")


def _store(array: Any, position: int, word: Any) -> None:
    """Store eight bytes at any offset of a byte array, little-endian."""
    _WORD.pack_into(array, position, int(word))


store_u64: Any = _store


def _viewer(kind: Any) -> Any:
    """Return a function that views memory at an address as an array; the owner keeps it alive."""
    size = np.dtype(kind).itemsize

    def view(address: int, length: int) -> Any:
        memory = (ctypes.c_char * (int(length) * size)).from_address(int(address))
        return _ready(np.frombuffer(memory, kind))

    return view


words_at = _viewer(np.int64)
halves_at = _viewer(np.int32)
bytes_at = _viewer(np.uint8)


def prefetch(array: Any, position: int) -> None:
    """Do nothing: the interpreter is slower than memory."""


prefetch_to_write = prefetch


def swapped(word: Any) -> Any:
    """Return a 64-bit word with its bytes reversed."""
    return np.uint64(int.from_bytes(int(word).to_bytes(_WIDE, "little"), "big"))


def leading_zeros(word: Any) -> Any:
    """Return the number of leading zero bits of a 64-bit word."""
    return np.uint64(8 * _WIDE - int(word).bit_length())


def trailing_zeros(word: Any) -> Any:
    """Return the number of trailing zero bits of a 64-bit word."""
    number = int(word)
    lowest = number & -number
    return np.uint64(lowest.bit_length() - 1 if number else 8 * _WIDE)
