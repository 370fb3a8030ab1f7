"""Record with which types commands call kernels, for `pregao warm`.

``python packaging/record_kernels.py`` runs commands with an empty cache of kernels, and rewrites
``src/pregao/kernel_signatures.txt`` with what they compiled. Run it after a change to a kernel's
arguments, or for a new kernel.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LIST = ROOT / "src" / "pregao" / "kernel_signatures.txt"


OTHERS = {
    "book._flat_kernels.write_order": "i8 i8 i8 i8 i8 i8 i8 i8[1C]",
    "book._flat_kernels.write_orders": "i8 i8 i8 i8 i8 i8 i8[1C] u1[1C] u1[1C] i8[1C] i8[1C] "
    "i8[1C] i8[1C] i8[1C] u1[1C]",
    "capture._file_kernels.surviving_boundaries": "u1[1C] i8 i8 i8 b1 i8 b1 u1[1C] i8[1C]",
    "capture._kernels.walk_pcapng": "u1[1C] i8 i8 i8 b1 i8 i8[2C] i4[1C] u8[1C] u8[1C] i8[1C] "
    "i8[1C] i4[1C] i8[1C] i8[1C] i4[1C] i8[1C] i8[1C] (i4[1C] u8[1C] u8[1C]) "
    "(i8[1C] i8[1C] i4[1C] i8[1C] i8[1C] i4[1C] i8[1C] u1[1C]) i8[1C]",
    "capture._layer_kernels.fill_slots": "i4[1C] u8[1C] u8[1C] b1[1C]",
    "lake.analytics._kernels.improving": "i8[1C] i8[1C] i8[1C] i8[1C]",
    "lake.analytics._order_kernels.first_reports": "i8[1C] i8[1A] i8[1A] i8[1C] i8[1C] i8[1C] "
    "i8[1C]",
    "lake.datasource._kernels.gather_i64": "u1[1C] i8[1C] i8[1C]",
    "net._kernels.send": "i8 i8[1C] i8 i8[1C] i8 i8[1C] i4[1C] i4[1C] i8 i8 i8",
}
"""Kernels that the commands below do not call, with the types of their arguments."""


def main() -> None:
    """Run the commands and write the list."""
    with tempfile.TemporaryDirectory(prefix="pregao-kernels-") as name:
        folder = Path(name)
        os.environ["PREGAO_CACHE_DIR"] = str(folder / "cache")
        os.environ["PREGAO_COMPILE_NOTICE"] = "0"
        os.chdir(folder)
        sys.path.insert(0, str(ROOT))
        entries = recorded(lambda: run_commands(folder))
    LIST.write_text("".join(sorted(f"{entry.line}\n" for entry in entries)), "ascii")
    print(f"{LIST.name}: {len(entries)} kernels")


def recorded(work: Callable[[], None]) -> list[Any]:
    """Return the kernels that Python code called and that were compiled for it."""
    from numba.core import event

    from pregao.cli.warm import KernelEntry, text_of

    found: list[Any] = []

    class Recorder(event.Listener):
        def __init__(self) -> None:
            self.began: list[float] = []

        def on_start(self, _event: Any) -> None:
            self.began.append(time.process_time())

        def on_end(self, event: Any) -> None:
            seconds = time.process_time() - self.began.pop()
            function = event.data["dispatcher"].py_func
            if not self.began and function.__module__.startswith("pregao."):
                types = text_of(event.data["args"])
                found.append(KernelEntry(function.__module__, function.__name__, types, seconds))

    recorder = Recorder()
    event.register("numba:compile", recorder)
    try:
        work()
    finally:
        event.unregister("numba:compile", recorder)
    return found


def run_commands(folder: Path) -> None:
    """Run the commands that call kernels, in this process."""
    for arguments in commands(folder):
        print("pregao", *arguments, flush=True)
        run(*arguments)
    call_directly(folder)


def run(*arguments: str) -> None:
    """Run a command, without what it prints."""
    from pregao.cli.main import app

    out = os.dup(1)
    with open(os.devnull, "w") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 1)
    try:
        code = app(args=list(arguments), prog_name="pregao", standalone_mode=False)
        sys.stdout.flush()
        if code:
            print(f"exit code {code}", file=sys.stderr)
    finally:
        os.dup2(out, 1)
        os.close(out)


def commands(folder: Path) -> Iterator[list[str]]:
    """Yield commands with their arguments."""
    small = ["--instruments", "4", "--duration", "40s", "--rate", "100", "--quiet"]
    yield ["simulate", "-o", "day", *small, "--loss", "0.02", "--reorder", "0.01"]
    yield ["simulate", "-o", "old", *small, "--schema-version", "7", "--compress", "gzip"]
    yield ["simulate", "-o", "levels", *small, "--legacy", "prices", "--loss", "0.02"]
    yield ["simulate", "-o", "orders", *small, "--legacy", "orders"]
    for day in ("levels", "orders"):
        (folder / f"{day}-legacy").mkdir()
        for capture in (folder / day).glob("*_Legacy_*"):
            capture.rename(folder / f"{day}-legacy" / capture.name)
    write_sessions(folder / "sessions")
    for day in ("day", "old", "levels-legacy", "sessions"):
        yield ["info", day]
        yield ["decode", day, "-n", "2000"]
        yield ["decode", day, "-n", "2000", "--format", "jsonl"]
        yield ["decode", day, "-o", f"{day}-tables/"]
    yield ["decode", "day", "--symbol", "PETR3", "--format", "jsonl"]
    yield ["decode", "day", "--template", "Order_MBO_50", "-o", "orders.csv"]
    yield ["ingest", "day", "sessions", "--lake", "lake", "--engine", "local", "--quiet"]
    split = ["--range-size", "200K", "--only", "messages"]
    yield ["ingest", "day", "--lake", "split-lake", "--engine", "local", "--quiet", *split]
    yield ["ingest", "old", "--lake", "old-lake", "--engine", "local", "--quiet"]
    yield ["ingest", "levels-legacy", "--lake", "levels-lake", "--engine", "local", "--quiet"]
    yield ["ingest", "orders-legacy", "--lake", "orders-lake", "--engine", "local", "--quiet"]
    for lake in ("lake", "old-lake", "levels-lake", "orders-lake"):
        yield ["analytics", "--lake", lake, "--engine", "local", "--quiet"]
        yield ["audit", "--lake", lake]
        yield ["book", "PETR3", "--lake", lake]
        yield ["query", "SELECT count(*) FROM v_trades", "--lake", lake]
    yield ["book", "PETR3", "--lake", "lake", "--at", "2026-05-21T13:00:20", "--orders"]
    yield ["plot", "heatmap", "PETR3", "--lake", "lake", "-o", "heatmap.svg"]
    yield ["export", "ticks", "--lake", "lake", "-o", "ticks.parquet"]
    yield ["export", "mbo", "--lake", "lake", "--symbol", "PETR3", "-o", "mbo.parquet"]
    yield ["export", "lobster", "--lake", "lake", "--symbol", "PETR3", "-o", "lobster"]
    yield ["live", "--demo", "--duration", "4s", "--json", "--speed", "10x"]


def write_sessions(folder: Path) -> None:
    """Write a capture of EntryPoint sessions, one of which was not captured from its start."""
    from tests.entrypoint.captured_talk import conversation, segments_of, write_capture

    folder.mkdir()
    late = segments_of(conversation(2, ids=100), client=("10.1.0.8", 40_002), size=60, syn=False)
    write_capture(folder / "orders.pcap", segments_of(conversation(30)), late[2:])


def call_directly(folder: Path) -> None:
    """Follow captures, and compile the kernels of rare inputs and of other processes."""
    import pregao
    from pregao.cli.warm import KernelEntry, compile_kernel

    for day in ("day", "levels-legacy", "orders-legacy"):
        for _ in pregao.follow(folder / day):
            pass
    for _ in pregao.read(folder / "day").messages():
        pass
    for name, types in OTHERS.items():
        module, _, function = name.rpartition(".")
        compile_kernel([KernelEntry(f"pregao.{module}", function, types, 0)])


if __name__ == "__main__":
    main()
