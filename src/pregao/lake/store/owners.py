"""Processes by a name that others can check: is the one that announced something still there?"""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path


def own_name() -> str:
    """The name of this process: its table of processes, its number, and when it began."""
    return f"{_table_of_processes()} {os.getpid()} {_began(os.getpid())}"


def is_gone(name: str) -> bool:
    """Did the process of this name end? False where that cannot be known from here."""
    table, number, began = _parts(name)
    if table != _table_of_processes() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The number may have been given to another process since.
    return _began(int(number)) != began


def shown_name(name: str) -> str:
    """The name for people."""
    table, number, _ = _parts(name)
    return f"process {number} on {table.rpartition('/')[2]}"


def _parts(name: str) -> tuple[str, str, str]:
    table, number, began = [*name.split(" "), "", "", ""][:3]
    return table, number, began


@functools.cache
def _table_of_processes() -> str:
    """What tells tables of processes apart: containers of one host may have several."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, space = "", ""
    return f"{boot}/{space}/{socket.gethostname()}".replace(" ", "")


def _began(process: int) -> str:
    """When a process began, in the system's own count; nothing where that is not told."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "-"
