"""``pregao warm``: compile all kernels once, into the cache.

`kernel_signatures.txt` lists the types with which commands call kernels, and how long each takes to
compile; ``python packaging/record_kernels.py`` rewrites it.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from pregao.cli import options
from pregao.errors import UsageError
from pregao.extras import kernels_compiled, require

if TYPE_CHECKING:
    from pathlib import Path

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao warm",
        "Compiled kernels are kept in PREGAO_CACHE_DIR, or in the cache folder of the user, for "
        "every process on this machine. Without this command each kernel is compiled when it is "
        "first used. If all are compiled already, the command only checks the cache.",
    )
)
SIGNATURES = "kernel_signatures.txt"
_MAX_PROCESSES = 8
_MARK = "complete"
"""File in the cache folder with the digest of the list whose kernels are in it."""
_NAMES = {
    "b1": "boolean", "f4": "float32", "f8": "float64",
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
}  # fmt: skip


class KernelEntry(NamedTuple):
    """A kernel by module and name, the types of its arguments, and the seconds to compile it."""

    module: str
    name: str
    types: str
    seconds: float

    @property
    def line(self) -> str:
        """The entry as a line of the list."""
        return f"{self.seconds:.2f} {self.module}.{self.name} {self.types}"


def warm(quiet: options.Quiet = False) -> None:
    """Compile all kernels once, so that no command has to wait for it.

    This takes about a minute.
    """
    require("numba")
    if not kernels_compiled():
        raise UsageError("NUMBA_DISABLE_JIT is set: kernels are not compiled. Unset it.")
    from pregao._compiled import CACHE

    if CACHE is None:
        raise UsageError(
            "No folder for compiled kernels is writable: set PREGAO_CACHE_DIR to one that only you "
            "can change. `pregao doctor` lists the folders."
        )
    entries, digest = listed(), list_digest()
    mark = CACHE / _MARK
    if mark.exists() and mark.read_text() == digest:
        _say(f"All {len(entries)} kernels are compiled already, in {CACHE}.", quiet)
        return
    _compile_all(entries, CACHE, quiet)
    mark.write_text(digest)


def _say(words: str, quiet: bool) -> None:
    if not quiet:
        typer.echo(words)


def list_digest() -> str:
    """Return a digest of the list."""
    return blake2b(_list().encode(), digest_size=16).hexdigest()


def _list() -> str:
    return files("pregao").joinpath(SIGNATURES).read_text("ascii")


def listed() -> list[KernelEntry]:
    """Return the kernels to compile, the slowest first."""
    lines = _list().splitlines()
    found = []
    for line in lines:
        seconds, name, types = line.split(" ", 2)
        module, _, function = name.rpartition(".")
        found.append(KernelEntry(module, function, types, float(seconds)))
    return sorted(found, key=lambda entry: -entry.seconds)


def _compile_all(entries: list[KernelEntry], cache: Path, quiet: bool) -> None:
    """Compile in processes, the slowest kernels first; a kernel's types stay in one process."""
    import time
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    from pregao._compiled import NOTICE_VARIABLE

    os.environ[NOTICE_VARIABLE] = "0"  # of the processes; this one shows their progress

    kernels = defaultdict(list)
    for entry in entries:
        kernels[entry.module, entry.name].append(entry)
    processes = min(len(os.sched_getaffinity(0)), _MAX_PROCESSES)
    began = time.monotonic()
    _say(f"Compiling {len(entries)} kernels into {cache}: about a minute, once.", quiet)
    with (
        _progress(sum(entry.seconds for entry in entries), quiet) as progress,
        ProcessPoolExecutor(processes, get_context("spawn")) as pool,
    ):
        tasks = {pool.submit(compile_kernel, own): own for own in kernels.values()}
        done = 0
        for task in as_completed(tasks):
            task.result()
            done += len(tasks[task])
            if progress is not None:
                words = f"compiled {done} of {len(entries)} kernels"
                progress.update(
                    progress.task_ids[0],
                    advance=sum(entry.seconds for entry in tasks[task]),
                    description=words,
                )
    _say(f"{len(entries)} kernels compiled in {time.monotonic() - began:.0f} s.", quiet)


def _progress(seconds: float, quiet: bool) -> AbstractContextManager[Any]:
    """Return a progress bar on standard error, or None if that is not a terminal."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from rich.progress import Progress

    from pregao.cli.console import console

    bar = Progress(console=console(sys.stderr), transient=True)
    bar.add_task("compiling", total=seconds)
    return bar


def compile_kernel(entries: Iterable[KernelEntry]) -> None:
    """Compile kernels for their types, or load them from the cache."""
    for entry in entries:
        kernel = getattr(import_module(entry.module), entry.name)
        kernel.compile(types_of(entry.types))


def types_of(text: str) -> tuple[Any, ...]:
    """Return numba's types of a line of the list."""
    parts = iter(text.replace("(", " ( ").replace(")", " ) ").split())
    return tuple(_types(parts))


def _types(parts: Iterator[str]) -> Iterator[Any]:
    types: Any = import_module("numba.core.types")
    for part in parts:
        if part == ")":
            return
        if part == "(":
            yield types.BaseTuple.from_types(tuple(_types(parts)))
            continue
        name, _, shape = part.rstrip("]").partition("[")
        kind = getattr(types, _NAMES[name])
        if not shape:
            yield kind
            continue
        yield types.Array(kind, int(shape[0]), shape[1], readonly=shape[2:] == "r")


def text_of(kinds: Iterable[Any]) -> str:
    """Return numba's types as in the list; raise `KeyError` for others."""
    types: Any = import_module("numba.core.types")
    names = {getattr(types, name): short for short, name in _NAMES.items()}
    texts = []
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            texts.append(f"({text_of(kind.types)})")
        elif isinstance(kind, types.Array):
            suffix = "" if kind.mutable else "r"
            texts.append(f"{names[kind.dtype]}[{kind.ndim}{kind.layout}{suffix}]")
        else:
            texts.append(names[kind])
    return " ".join(texts)
