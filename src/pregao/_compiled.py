"""Compilation of kernels with numba: with a separate cache, and unaligned loads.

Kernels are in the ``_kernels.py`` of their package. Their arguments and results are flat arrays.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import ir
from numba.core import caching, cgutils, event, types
from numba.extending import intrinsic
from numba.np import arrayobj

from pregao._kernel_cache import (
    PACKAGE,
    cache_folder,
    digest_of,
    kernel_sources,
    module_names,
)
from pregao._version import __version__

_SOURCES = kernel_sources()
_MODULES = module_names(_SOURCES)
CHECKED = bool(getattr(numba.config, "BOUNDSCHECK", None))
"""Whether every array access is checked (``NUMBA_BOUNDSCHECK=1``), as the fuzzers do."""
_VERSIONS = (
    __version__, numba.__version__, llvmlite.__version__, np.__version__, sys.version,
    *(["checked"] if CHECKED else []),
)  # fmt: skip
CACHE = cache_folder(digest_of(_SOURCES, _VERSIONS))
"""Folder with compiled kernels; None if no folder is writable."""
_lock = threading.Lock()


def njit(function: Callable[..., Any]) -> Any:
    """Compile a kernel: cached if a cache folder is available, and without the GIL.

    Functions outside the digested files (or without a file) are never loaded from a cache.
    """
    kernel = numba.njit(function, nogil=True)
    if CACHE is not None and function.__module__ in _MODULES:
        with _lock, _own_cache(str(CACHE)):
            kernel._cache = _SharedCache(function)
    return kernel


def njit_or(fallback: str) -> Callable[..., Any]:  # noqa: ARG001
    """Compile a kernel that has a NumPy fallback for installations without numba."""
    return njit


_PART: dict[str, Any] = {"nogil": True, "forceinline": True, "_nrt": False}
part = numba.njit(**_PART)
"""Decorator for functions that only kernels call. Passing arrays is expensive: everything is
inlined, and references to them are not counted, which alone took more than half of the time.
"""


class _SharedCache(caching.FunctionCache):
    """Cache of a kernel's code that processes write in turn; numba's loses code, or mixes it up."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code for some types of arguments."""
        assert CACHE is not None
        with (CACHE / "lock").open("a") as file:
            with contextlib.suppress(OSError):  # file systems without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            super().save_overload(sig, data)


_LOCATORS = "CACHE_LOCATOR_CLASSES"
"""numba's setting for the classes that locate its cache; older versions do not have it."""

if hasattr(caching, "UserProvidedCacheLocator"):

    class KernelLocator(caching.UserProvidedCacheLocator):
        """Locates the code of a kernel by its path within the package.

        numba's own locator uses the path of the package, so that every job on a cluster that
        unpacks an archive to a new path would recompile everything.
        """

        @classmethod
        def get_suitable_cache_subpath(cls, py_file: str) -> str:
            """Return the folder inside the cache."""
            inside = Path(py_file).parent.relative_to(PACKAGE)
            return "_".join(("pregao", *inside.parts))


@contextlib.contextmanager
def _own_cache(folder: str) -> Iterator[None]:
    """Set numba's cache folder while our kernels are compiled; other code keeps its own setting."""
    config = numba.config
    wanted = {"CACHE_DIR": folder}
    if hasattr(config, _LOCATORS) and hasattr(caching, "UserProvidedCacheLocator"):
        wanted[_LOCATORS] = f"{__name__}.KernelLocator,UserProvidedCacheLocator"
    others = {name: getattr(config, name) for name in wanted}
    for name, value in wanted.items():
        setattr(config, name, value)
    try:
        yield
    finally:
        for name, value in others.items():
            setattr(config, name, value)


def _check_bounds(context: Any, builder: Any, buffer: Any, position: Any, width: int) -> None:
    """Raise IndexError for bytes outside an array, if accesses are checked."""
    if CHECKED:
        last = builder.add(position, context.get_constant(types.intp, width - 1))
        for index in (position, last):
            cgutils.do_boundscheck(context, builder, index, buffer.nitems)


def _loader(width: int, result: Any) -> Any:
    """Return an intrinsic that loads ``width`` little-endian bytes at any offset of an array."""

    @intrinsic
    def load(typingctx: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
        if not (isinstance(array, types.Array) and array.dtype == types.uint8):
            return None
        signature = result(array, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            buffer = context.make_array(signature.args[0])(context, builder, arguments[0])
            word = ir.IntType(8 * width)
            _check_bounds(context, builder, buffer, arguments[1], width)
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


@intrinsic
def store_u64(typingctx: Any, array: Any, position: Any, word: Any) -> Any:  # noqa: ARG001
    """Store eight bytes at any offset of a byte array, little-endian."""
    if not (isinstance(array, types.Array) and array.dtype == types.uint8):
        return None
    signature = types.void(array, types.intp, types.uint64)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        buffer = context.make_array(signature.args[0])(context, builder, arguments[0])
        _check_bounds(context, builder, buffer, arguments[1], 8)
        address = builder.gep(buffer.data, [arguments[1]])
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        builder.store(arguments[2], pointer).align = 1
        return context.get_dummy_value()

    return signature, codegen


def _viewer(item: Any) -> Any:
    """Return an intrinsic that views memory at an address as an array; the owner keeps it alive.

    A kernel thereby accesses any number of arrays through one table of addresses: each array passed
    to a compiled function takes as long as the work on a small packet.
    """

    @intrinsic
    def view(typingctx: Any, address: Any, length: Any) -> Any:  # noqa: ARG001
        if not (isinstance(address, types.Integer) and isinstance(length, types.Integer)):
            return None
        result = types.Array(item, 1, "C")
        signature = result(types.intp, types.intp)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.return_type)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(item))
            arrayobj.populate_array(
                array,
                data=builder.inttoptr(arguments[0], array.data.type),
                shape=[arguments[1]],
                strides=[context.get_constant(types.intp, size)],
                itemsize=context.get_constant(types.intp, size),
                meminfo=None,
            )
            return array._getvalue()

        return signature, codegen

    return view


words_at = _viewer(types.int64)
halves_at = _viewer(types.int32)
bytes_at = _viewer(types.uint8)


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
            # High temporal locality; data, not code.
            builder.call(function, [address, number(writing), number(3), number(1)])
            return context.get_dummy_value()

        return signature, codegen

    return fetch


# Prefetch the cache line at an offset of a byte array, for reading or for writing. Any offset is
# allowed, even outside the array.
prefetch = _prefetcher(0)
prefetch_to_write = _prefetcher(1)


def _of_word(build: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic on one 64-bit word."""

    @intrinsic
    def work(typingctx: Any, word: Any) -> Any:  # noqa: ARG001
        if word != types.uint64:
            return None

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            return build(builder, arguments[0])

        return types.uint64(types.uint64), codegen

    return work


_DEFINED = ir.IntType(1)(0)  # zero is a valid input; its result is 64

swapped = _of_word(lambda builder, word: builder.bswap(word))
leading_zeros = _of_word(lambda builder, word: builder.ctlz(word, _DEFINED))
trailing_zeros = _of_word(lambda builder, word: builder.cttz(word, _DEFINED))


# --- Notice of compilation ---

NOTICE_VARIABLE = "PREGAO_COMPILE_NOTICE"
"""Environment variable that disables the notice if it is 0."""
_NOTICE_AFTER_S = 1.0
_SILENCE_S = 120.0
_REDRAW_S = 0.1
_CLEAR = "\r\x1b[K"


class CompilationNotice(event.Listener):
    """States that kernels are being compiled, because a first command can wait a minute for it.

    On a terminal, one line shows the progress and disappears at the end. Elsewhere, one of the
    processes that share the cache logs a sentence.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._began = self._drawn = 0.0
        self._seconds = 0.0
        self._kernels = 0
        self._logged = False

    def on_start(self, event: Any) -> None:
        """Note that a kernel, or a function that it calls, is being compiled."""
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
        self._show(event.data["dispatcher"].py_func)

    def on_end(self, _event: Any) -> None:
        """Note that it was compiled."""
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.monotonic() - self._began
            self._kernels += 1
            if self._drawn and (stream := _terminal()) is not None:
                stream.write(_CLEAR)
                stream.flush()
            self._drawn = 0.0

    def _show(self, function: Any) -> None:
        now = time.monotonic()
        seconds = self._seconds + now - self._began
        if seconds < _NOTICE_AFTER_S or now - self._drawn < _REDRAW_S:
            return
        stream = _terminal()
        if stream is None:
            self._log()
        elif function.__module__.startswith("pregao."):
            self._drawn = now
            progress = f"{self._kernels} compiled in {seconds:.0f} s"
            line = f"pregao: {_WHAT}: {progress} ({_ADVICE})"
            stream.write(f"{_CLEAR}{line[: os.get_terminal_size(stream.fileno()).columns - 1]}")
            stream.flush()

    def _log(self) -> None:
        if not self._logged and (CACHE is None or _first_in(CACHE)):
            logging.getLogger(__name__).warning("%s (%s)", _WHAT, _ADVICE)
        self._logged = True


_WHAT = f"compiling kernels{'' if CACHE is None else ', once'}, up to a minute"
_ADVICE = (
    "`pregao doctor` says why none are cached" if CACHE is None else "`pregao warm` compiles all"
)


def _terminal() -> Any | None:
    """Return standard error if it is a terminal on which no progress bar is drawn."""
    stream = sys.stderr
    if stream is None or not stream.isatty() or type(stream).__module__.startswith("rich."):
        return None
    # The command line's stream would escape what moves the cursor.
    return getattr(stream, "rich_proxied_file", stream)


def _first_in(cache: Path) -> bool:
    """Whether no process has announced the compilation in this cache in the last minutes."""
    path = cache / "announced"
    with contextlib.suppress(OSError):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            if time.time() - path.stat().st_mtime < _SILENCE_S:
                return False
            path.touch()
    return True


if os.environ.get(NOTICE_VARIABLE) != "0":
    event.register("numba:compile", CompilationNotice())
