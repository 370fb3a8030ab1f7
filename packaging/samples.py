"""Run the samples of the documents: ``python packaging/samples.py [--write] [PAGE …]``.

The samples of a page run one after the other, word for word, in a new folder:

- ``sh`` blocks are commands; each must exit with 0.
- ``console`` blocks are commands after ``$`` with their output. The page may leave out lines, and
  the end of a line, with ``…``. Rates, durations, sizes and IDs of a run may differ.
- ``python`` blocks are scripts, each in its own process.
- Blocks of any other language whose first line is a comment with a file name are that file.

A comment of Markdown before a block changes this: ``<!-- not run: REASON -->``, ``<!-- setup:
COMMANDS -->`` (commands that the page does not show), ``<!-- background: TEXT -->`` (the command
runs until ``<!-- stop -->`` or the end of the page; continue when it prints the text). With
``--write``, output that differs is replaced in the page.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md", "docs/tutorial.md", "docs/cli.md", "docs/captures.md",
    "docs/howto/researcher.md", "docs/howto/market_data_engineer.md",
    "docs/howto/trading_system_developer.md", "docs/howto/archive_owner.md",
    "docs/entrypoint.md", "docs/exports.md", "docs/legacy.md", "docs/live.md",
    "docs/simulate.md",
)  # fmt: skip
MAX_WAIT_S = 600.0
_NEW_NETWORK, _NEW_USER, _SET_FLAGS, _UP = 0x40000000, 0x10000000, 0x8914, 0x1049
_END_WITH_PARENT = 1
_PRELOADED = (
    "duckdb", "pyarrow.dataset", "pregao.api.lake", "pregao.cli.main", "pregao.lake.drop",
    "pregao.lake.ingest.pipeline", "pregao.exchange.simulation.simulation",
)  # fmt: skip
_BLOCK = re.compile(
    r"(?:^<!-- (?P<directive>not run|background): (?P<value>(?:(?!-->).)*) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SETUP = re.compile(r"^<!-- setup: (?P<value>(?:(?!-->).)*) -->$", re.MULTILINE | re.DOTALL)
_STOP = re.compile(r"^<!-- stop -->$", re.MULTILINE)
_FILE = re.compile(r"(?:#|//) (?P<name>[\w.-]+\.\w+)$")
_NUMBER = re.compile(r"\d[\d,.:]*")
_RUN_DATE = r"\b(?!2026-05-21)20\d\d-\d\d-\d\dT[\d:.]+Z"
# What differs from run to run, or from machine to machine.
_VOLATILE = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\b\d[\d,]*(\.\d+)? ?(s|ms|µs|[kMG]?B|bytes/s|messages/s|rows/s)\b"), "N"),
    (re.compile(r"^(\W*(seconds|messages per second|peak worker memory)\b.*)$"), "MEASURED"),
    (re.compile(r"\b\d+ \([\d,]+ bytes\)"), "FILES"),
    (re.compile(_RUN_DATE), "TIME"),
    (re.compile(r"(127\.0\.0\.1):\d{5}\b"), r"\1:PORT"),
    (re.compile(r"[─━┄]+"), "-"),
    (re.compile(r"\s+"), " "),
)


_CLIENT = """\
import array, json, os, signal, socket, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = {{
    "program": {name!r},
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "environment": dict(os.environ),
}}
files = array.array("i", [0, 1, 2])
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, files)
connection.sendmsg([json.dumps(request).encode()], [rights])
answers = connection.makefile("r")
worker = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda got, frame: os.kill(worker, got))
code = int(answers.readline() or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""The programs ``pregao`` and ``python`` of the samples: they ask a server to run a command."""


@dataclass
class Sample:
    """A command, script or file of a page, with the output that the page shows."""

    language: str
    text: str
    shown: list[str] | None
    line: int
    directive: str = ""
    value: str = ""
    span: tuple[int, int] = (0, 0)
    output: list[str] = field(default_factory=list)


def samples(text: str) -> Iterator[Sample]:
    """Iterate over the samples of a page, in order."""
    found = [*_BLOCK.finditer(text), *_SETUP.finditer(text), *_STOP.finditer(text)]
    for match in sorted(found, key=lambda each: each.start()):
        line = text.count("\n", 0, match.start()) + 1
        if match.re is _STOP:
            yield Sample("stop", "", None, line)
            continue
        if match.re is _SETUP:
            yield Sample("sh", match["value"], None, line)
            continue
        directive, value = match["directive"] or "", match["value"] or ""
        if match["language"] == "console":
            yield from _transcript(match, line, directive, value)
        else:
            yield Sample(match["language"], match["text"], None, line, directive, value)


def _transcript(match: re.Match[str], line: int, directive: str, value: str) -> Iterator[Sample]:
    """Iterate over the commands of a transcript."""
    start = at = match.start("text")
    command, shown, begun = "", [], False
    for each in match["text"].splitlines(keepends=True):
        if each.startswith("$ ") and not (begun and not _complete(command)):
            if begun:
                yield Sample("console", command, shown, line, directive, value, (start, at))
            command, shown, begun = each[2:], [], True
            start = at + len(each)
        elif begun and not _complete(command):
            command += each
            start = at + len(each)
        else:
            shown.append(each.rstrip("\n"))
        at += len(each)
    if begun:
        yield Sample("console", command, shown, line, directive, value, (start, at))


def _complete(command: str) -> bool:
    if command.endswith("\\\n"):
        return False
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def differs(shown: Sequence[str], output: Sequence[str], numbers: bool = True) -> str:
    """Return why an output is not the one that a page shows; an empty string if it is.

    Without ``numbers``, only words and columns are compared.
    """
    wanted, actual = (
        [_plain(line) if numbers else _NUMBER.sub("0", _plain(line)) for line in lines]
        for lines in (shown, output)
    )
    at = 0
    pieces = _pieces(wanted)
    for number, (piece, free) in enumerate(pieces):
        last = number == len(pieces) - 1
        places = range(at, len(actual) - len(piece) + 1) if free else range(at, at + 1)
        if last and wanted and wanted[-1] != "…":
            places = [each for each in places if each + len(piece) == len(actual)]
        for place in places:
            if all(map(_same, piece, actual[place : place + len(piece)])) and (
                place + len(piece) <= len(actual)
            ):
                at = place + len(piece)
                break
        else:
            return "\n".join(["The page shows", *shown, "but the output is", *output])
    return ""


def _pieces(lines: Sequence[str]) -> list[tuple[list[str], bool]]:
    """Split lines at ``…``: pieces, and whether lines were left out before each."""
    pieces: list[tuple[list[str], bool]] = [([], False)]
    for line in lines:
        if line == "…":
            pieces.append(([], True))
        else:
            pieces[-1][0].append(line)
    return pieces if pieces[-1][0] or len(pieces) == 1 else pieces[:-1]


def _same(wanted: str, actual: str) -> bool:
    if wanted.endswith("…"):
        return actual.startswith(wanted[:-1].rstrip())
    return wanted == actual


def _plain(line: str) -> str:
    for pattern, replacement in _VOLATILE:
        line = pattern.sub(replacement, line)
    return line.strip()


def rewritten(shown: Sequence[str], output: Sequence[str]) -> list[str]:
    """Return an output as a page would show it, with the same lines left out."""
    lines: list[str] = []
    at = 0
    pieces = _pieces(shown)
    for number, (piece, free) in enumerate(pieces):
        last = number == len(pieces) - 1 and bool(shown) and shown[-1] != "…"
        if free:
            lines.append("…")
            if last:
                at = max(at, len(output) - len(piece))
            elif piece:
                words = [re.sub(r"[\d,.]+", "", _plain(line)) for line in output]
                first = re.sub(r"[\d,.]+", "", _plain(piece[0])).rstrip("… ")
                at = next((i for i in range(at, len(words)) if words[i].startswith(first)), at)
        size = len(output) - at if last else len(piece)
        for old, new in zip([*piece, *[""] * size], output[at : at + size], strict=False):
            kept = old.endswith("…") and old != "…" and len(new) > len(old)
            lines.append(new[: len(old) - 1].rstrip() + " …" if kept else new)
        at += size
    return [*lines, "…"] if shown and shown[-1] == "…" else lines


class Server:
    """A process with Pregão imported, which runs each command as a fork: faster than a start."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self._address = str(folder / "server")
        for name in ("pregao", "python"):
            shim = self.bin / name
            shim.write_text(
                f"#!{sys.executable} -IS\n" + _CLIENT.format(name=name, address=self._address)
            )
            shim.chmod(0o755)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", self._address],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )

    def __enter__(self) -> Server:
        end = time.monotonic() + MAX_WAIT_S
        while not Path(self._address).exists() and time.monotonic() < end:
            time.sleep(0.02)
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait()


def serve(address: str) -> None:
    """Serve commands on a local socket until this process is terminated."""
    with contextlib.suppress(AttributeError):  # Linux: end with the process that asks
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGTERM)
    _isolate()
    for name in _PRELOADED:
        importlib.import_module(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen()
    Path(address + ".new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _attend(connection)
        connection.close()


def _isolate() -> None:
    """Enter a network of our own where that is allowed, so that the ports of samples are free."""
    user, group = os.getuid(), os.getgid()
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
        if unshare(_NEW_NETWORK | (_NEW_USER if user else 0)):
            return
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as chosen:
            up = struct.pack("16sh", b"lo", _UP)
            fcntl.ioctl(chosen, _SET_FLAGS, up.ljust(40, b"\0"))
    except (AttributeError, OSError):
        return


def _attend(connection: socket.socket) -> None:
    size = array.array("i").itemsize * 3
    data, extra, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(size))
    files = array.array("i", extra[0][2][:size])
    request = json.loads(data)
    worker = os.fork()
    if worker == 0:
        connection.close()
        for number, each in enumerate(files):
            os.dup2(each, number)
            os.close(each)
        os._exit(_work(request))
    connection.sendall(f"{worker}\n".encode())
    threading.Thread(target=_end_with, args=(connection, worker), daemon=True).start()
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _end_with(connection: socket.socket, worker: int) -> None:
    """End a command whose client has ended."""
    with contextlib.suppress(OSError):
        connection.recv(1)
        os.kill(worker, signal.SIGKILL)


def _work(request: dict[str, Any]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["program"], *request["arguments"]]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    code: object = 0
    try:
        if request["program"] == "pregao":
            from pregao.cli.main import run

            run()
        else:
            import runpy

            sys.argv = request["arguments"]
            sys.path.insert(0, str(Path(sys.argv[0]).parent.resolve()))
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    return code if isinstance(code, int) else int(code is not None)


class Page:
    """A page whose samples run in a folder."""

    def __init__(
        self,
        page: str,
        folder: Path,
        tools: Path,
        numbers: bool = True,
    ) -> None:
        self.page = page
        self.text = (ROOT / page).read_text(encoding="utf-8")
        self.samples = list(samples(self.text))
        self.failures: list[str] = []
        self.ran = 0
        self._numbers = numbers
        self._folder = folder
        home = folder.parent / "home"
        home.mkdir(exist_ok=True)
        kept = ("PREGAO_CACHE_DIR", "JAVA_HOME", "LANG", "PYTHONPATH", "TMPDIR")
        self._environment = {name: os.environ[name] for name in kept if name in os.environ}
        self._environment |= {
            "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(home),
            "PREGAO_COMPILE_NOTICE": "0", "MPLBACKEND": "agg", "PYTHONUTF8": "1",
        }  # fmt: skip
        if "PREGAO_CACHE_DIR" not in os.environ:
            cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
            self._environment["XDG_CACHE_HOME"] = cache
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        """Run all samples; collect failures."""
        try:
            for sample in self.samples:
                self._run(sample)
        finally:
            self._stop()

    def _stop(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        while self._running:
            self._running.pop().wait(MAX_WAIT_S)

    def _run(self, sample: Sample) -> None:
        if sample.directive == "not run":
            return
        first, _, _rest = sample.text.partition("\n")
        if sample.language == "stop":
            self._stop()
        elif sample.language == "python":
            script = self._folder / f"sample-{sample.line}.py"
            script.write_text(sample.text)
            self._execute(sample, f"python {script.name}")
        elif sample.language in ("sh", "console"):
            self._execute(sample, sample.text)
        elif named := _FILE.fullmatch(first):
            (self._folder / named["name"]).write_text(sample.text)

    def _execute(self, sample: Sample, command: str) -> None:
        self.ran += 1
        output = self._folder.parent / f"output-{self.ran}"
        errors = "" if sample.language == "console" else "set -e\n"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", errors + command], cwd=self._folder, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        if sample.directive == "background":
            self._running.append(process)
            end = time.monotonic() + MAX_WAIT_S
            while sample.value not in output.read_text() and time.monotonic() < end:
                if process.poll() is not None:
                    break
                time.sleep(0.02)
            if sample.value not in output.read_text():
                self._fail(sample, f"did not print {sample.value}: {output.read_text()}")
            return
        try:
            code = process.wait(MAX_WAIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._fail(sample, f"had not ended after {MAX_WAIT_S:g} s")
            return
        text = output.read_text(encoding="utf-8").replace(str(self._folder), "/home/user/b3")
        sample.output = [line.rstrip() for line in text.splitlines()]
        if not sample.shown:
            if code:
                self._fail(sample, f"exit code {code}\n{text}")
        elif reason := differs(sample.shown, sample.output, self._numbers):
            self._fail(sample, reason)

    def _fail(self, sample: Sample, reason: str) -> None:
        self.failures.append(f"{self.page}:{sample.line}: {sample.text.strip()}\n{reason}")

    def write(self) -> None:
        """Replace output that differs in the page."""
        text = self.text
        for sample in reversed(self.samples):
            if sample.output and sample.shown is not None and differs(sample.shown, sample.output):
                lines = rewritten(sample.shown, sample.output)
                start, end = sample.span
                text = text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]
        (ROOT / self.page).write_text(text, encoding="utf-8")


def run_page(page: str, server: Server, numbers: bool = True) -> Page:
    """Run the samples of a page in a new folder."""
    folder = Path(tempfile.mkdtemp(prefix="samples-"))
    try:
        (folder / "work").mkdir()
        made = Page(page, folder / "work", server.bin, numbers)
        made.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return made


def main() -> int:
    """Run the samples of pages; return 1 if one differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--serve", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="replace output that differs")
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages, from the checkout's folder")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
    failed = False
    with tempfile.TemporaryDirectory(prefix="s") as folder, Server(Path(folder)) as server:
        for name in arguments.pages:
            page = run_page(name, server)
            print(f"{name}: {page.ran} samples ran, {len(page.failures)} differ", flush=True)
            for failure in page.failures:
                print(failure)
            failed |= bool(page.failures)
            if arguments.write:
                page.write()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
