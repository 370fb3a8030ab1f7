"""Kernels run by the interpreter: what `_compiled` offers, without numba, a hundred times slower.

Numbers behave as in compiled code. Those of 64 bits are numpy's, which wrap around. Smaller ones
are Python's: compiled code widens them before it reckons with them, numpy would not.
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
"""Bytes of a number that is reckoned with as it is."""


class _Inside(threading.local):
    """Does a kernel run in this thread? What it calls then gets arrays that are ready."""

    yes = False


_inside = _Inside()


class _Narrow(np.ndarray[Any, Any]):
    """An array of small numbers that gives them as Python's."""

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
    """A kernel that anybody may call."""

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


def njit_or(twins: str) -> Callable[..., Any]:
    """A kernel of which there is a lot to do: that of its name in a module that has numpy do it."""

    def chosen(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def kernel(*arguments: Any) -> Any:
            twin = getattr(importlib.import_module(twins), function.__name__)
            return twin(*arguments)

        return kernel

    return chosen


def part(function: Callable[..., Any]) -> Any:
    """For what only kernels call."""
    return function


def _loader(code: str) -> Any:
    """Reads a number at any place of a byte array, little-endian."""
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
    """Write eight bytes at any place of a byte array, little-endian."""
    _WORD.pack_into(array, position, int(word))


store_u64: Any = _store


def _viewer(kind: Any) -> Any:
    """Sees memory at an address as an array; who owns it keeps it alive."""
    size = np.dtype(kind).itemsize

    def view(address: int, length: int) -> Any:
        memory = (ctypes.c_char * (int(length) * size)).from_address(int(address))
        return _ready(np.frombuffer(memory, kind))

    return view


words_at = _viewer(np.int64)
halves_at = _viewer(np.int32)
bytes_at = _viewer(np.uint8)


def prefetch(array: Any, position: int) -> None:
    """Nothing: what the interpreter does takes longer than memory does."""


prefetch_to_write = prefetch


def swapped(word: Any) -> Any:
    """The bytes of a 64-bit word in the other order."""
    return np.uint64(int.from_bytes(int(word).to_bytes(_WIDE, "little"), "big"))


def leading_zeros(word: Any) -> Any:
    """How many of the highest bits of a 64-bit word are not set."""
    return np.uint64(8 * _WIDE - int(word).bit_length())


def trailing_zeros(word: Any) -> Any:
    """How many of the lowest bits of a 64-bit word are not set."""
    number = int(word)
    lowest = number & -number
    return np.uint64(lowest.bit_length() - 1 if number else 8 * _WIDE)
