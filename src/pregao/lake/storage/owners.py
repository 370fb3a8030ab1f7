"""Process names that other processes can check, to detect whether an announcer has exited."""

from __future__ import annotations

import functools
import os
import socket
from pathlib import Path


def own_name() -> str:
    """Return the name of this process: PID namespace, PID and start time."""
    return f"{_table_of_processes()} {os.getpid()} {_began(os.getpid())}"


def has_exited(name: str) -> bool:
    """Whether a process has exited; False if that cannot be determined from this host."""
    table, number, began = _parts(name)
    if table != _table_of_processes() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The PID may have been reused.
    return _began(int(number)) != began


def shown_name(name: str) -> str:
    """Return the name for messages."""
    table, number, _ = _parts(name)
    return f"process {number} on {table.rpartition('/')[2]}"


def _parts(name: str) -> tuple[str, str, str]:
    table, number, began = [*name.split(" "), "", "", ""][:3]
    return table, number, began


@functools.cache
def _table_of_processes() -> str:
    """Return an ID of the PID namespace: containers of one host may have several."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, space = "", ""
    return f"{boot}/{space}/{socket.gethostname()}".replace(" ", "")


def _began(process: int) -> str:
    """Return the start time of a process in clock ticks since boot; ``-`` if unavailable."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "-"
