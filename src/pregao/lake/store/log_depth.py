"""Check the nesting depth of a Delta log's commits before the table library reads them.

The library's JSON reader is recursive: a commit of 100,000 brackets overflows its stack and ends
the process. On a local disk, the commits that it would read are scanned first; a line with few
brackets, as all except those of wide tables are, costs only a count. Logs in object stores are not
checked: reading each commit twice would double the requests of every command.
"""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path

from pregao.safe_io.documents import MAX_DEPTH
from pregao.errors import UsageError

_FEW = 2_000
"""Number of brackets up to which no line can be nested too deep for the library."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")


def check_log(table: str) -> None:
    """Raise UsageError if a commit of a local table is nested too deep to read."""
    log = Path(table) / "_delta_log"
    names = [path.name for path in log.glob("[0-9]*")]
    # The library reads the newest checkpoint and the commits after it.
    newest = max((name[:20] for name in names if ".checkpoint." in name), default="")
    for name in names:
        if name.endswith(".json") and name[:20] > newest:
            found = (log / name).stat()
            if _is_deep(str(log / name), found.st_size, found.st_mtime_ns):
                raise _too_deep(log / name)
    pointer = log / "_last_checkpoint"
    with contextlib.suppress(FileNotFoundError):
        if _line_is_deep(pointer.read_bytes()):
            raise _too_deep(pointer)


def _too_deep(file: Path) -> UsageError:
    return UsageError(
        f"{file} is nested more than {MAX_DEPTH} levels deep, which no valid table log is. "
        "Restore it from a backup."
    )


@functools.lru_cache(maxsize=10_000)
def _is_deep(commit: str, _size: int, _modified_ns: int) -> bool:
    """Whether a commit is nested too deep; cached by its size and modification time."""
    with Path(commit).open("rb") as lines:
        return any(_line_is_deep(line) for line in lines)


def _line_is_deep(line: bytes) -> bool:
    if line.count(b"[") + line.count(b"{") <= _FEW:
        return False
    depth = 0
    for run in _BRACKETS.findall(_STRING.sub(b"", line)):
        depth += len(run) if run[0] in b"[{" else -len(run)
        if depth > MAX_DEPTH:
            return True
    return False
