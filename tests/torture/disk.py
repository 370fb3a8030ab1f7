"""The disk under the exchange and its clients: it fails, or the process dies, at a chosen write.

The product writes journals, checkpoints and sessions through `pregao.safe_io.private_files`; that
is where the faults are injected.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pregao.safe_io import private_files

_write_all, _sync_data, _open_existing = (
    private_files.write_all,
    private_files.sync_data,
    private_files.open_existing,
)


class KilledError(BaseException):
    """The process ended here: no code of the product may catch it."""


class Disk:
    """Passes writes on, until the one that is to fail."""

    def __init__(self) -> None:
        self.armed = ""
        """What happens at the next write to a journal, or sync of it; nothing if empty."""
        self.bytes = 0
        self.injected: Counter[str] = Counter()
        self.synced: dict[int, int] = {}
        """Size of each file at its last sync, by inode."""
        self.where: Path | None = None
        """Only files of this folder fail."""

    @contextmanager
    def mounted(self):
        """Let the product write to this disk."""
        with (
            patch.object(private_files, "write_all", self.write_all),
            patch.object(private_files, "sync_data", self.sync_data),
            patch.object(private_files, "open_existing", self.open_existing),
        ):
            yield

    def arm(self, kind: str, where: Path, count: int = 0) -> None:
        """Let the next write into a folder fail, after a number of bytes."""
        self.armed, self.where, self.bytes = kind, where, count

    def _fires(self, descriptor: int, *kinds: str) -> bool:
        if self.armed not in kinds or self.where is None:
            return False
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self.where not in (path, path.parent):
            return False
        self.injected[self.armed] += 1
        return True

    def write_all(self, descriptor: int, data: bytes) -> None:
        """Write all bytes, or some of them and then fail."""
        if self._fires(descriptor, "kill in write", "disk full", "session disk full"):
            kind, self.armed = self.armed, ""
            _write_all(descriptor, data[: min(self.bytes, len(data) - 1)])
            if kind == "kill in write":
                raise KilledError(kind)
            raise OSError(28, "No space left on device")
        _write_all(descriptor, data)

    def sync_data(self, descriptor: int) -> None:
        """Sync a file, or die before."""
        if self._fires(descriptor, "kill before sync", "power loss"):
            kind, self.armed = self.armed, ""
            raise KilledError(kind)
        found = os.fstat(descriptor)
        self.synced[found.st_ino] = found.st_size

    def open_existing(self, path: Path, flags: int = os.O_RDONLY) -> int:
        """Open a file, or fail to read it."""
        if self.armed == "read error" and path.parent == self.where and path.name != "lock":
            self.armed = ""
            self.injected["read error"] += 1
            raise OSError(5, "Input/output error")
        return _open_existing(path, flags)

    def lose_power(self, folder: Path, part: float) -> None:
        """Cut what was written but not synced at any byte, as the end of the machine does."""
        for path in sorted(folder.glob("journal-*")):
            size = path.stat().st_size
            safe = min(self.synced.get(path.stat().st_ino, 0), size)
            os.truncate(path, safe + round((size - safe) * part))
