"""Recorder: writes received packets to pcap files, rolled by size and time.

Every write consists of complete records. A process killed during a write may leave a torn record at
the end of its last file: readers report it, and the next recorder of the same folder truncates it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from pregao.capture.block_reader import read_blocks
from pregao.capture.writer import UdpRecords
from pregao.clock import MINUTE, SECOND, format_ns
from pregao.errors import CaptureError, UsageError
from pregao.net.addresses import Address
from pregao.net.datagram_batch import DatagramBatch

ROLL_BYTES = 256 * 1024 * 1024
ROLL_NS = 10 * MINUTE
SYNC_NS = SECOND
ENDING = ".pcap"


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """Where captures are written, and when files are rolled."""

    folder: Path
    name: str = "live"
    """Prefix of all file names."""
    roll_bytes: int = ROLL_BYTES
    roll_ns: int = ROLL_NS
    sync_ns: int = SYNC_NS
    """Interval between fsync calls; synced data survives a loss of power."""


class Recorder:
    """Writes batches of datagrams to files of a folder; for use by one thread."""

    def __init__(self, settings: RecordSettings) -> None:
        self.settings = settings
        self.packets = 0
        self.bytes = 0
        self.files = 0
        self._records = UdpRecords()
        self._destinations: dict[int, int] = {}
        self._table = np.empty(0, np.int64)
        self._file: _File | None = None
        self._named_ns = 0
        try:
            settings.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _refused(settings.folder, error) from error
        self.mended = truncate_torn_record(settings.folder, settings.name)
        """Bytes of a torn record that an earlier recorder left and that were truncated."""

    def line(self, number: int, address: Address) -> None:
        """Set the destination of a line's datagrams."""
        self._destinations[number] = int(IPv4Address(address.host)) << 16 | address.port
        self._table = np.zeros(max(self._destinations) + 1, np.int64)
        for line, destination in self._destinations.items():
            self._table[line] = destination

    def write(self, batch: DatagramBatch) -> None:
        """Append datagrams to the current file."""
        if not len(batch):
            return
        file = self._file_for(int(batch.time_ns[0]))
        records = self._records.build(
            batch.buffer,
            batch.offset,
            batch.length,
            batch.time_ns,
            batch.source,
            self._table[batch.line],
        )
        file.append(records.data)
        self.packets += len(batch)
        self.bytes += len(records)

    def tick(self, now_ns: int) -> None:
        """Close the current file if it is old enough."""
        if self._file is not None and now_ns - self._file.begun_ns >= self.settings.roll_ns:
            self._end_file()

    def _file_for(self, time_ns: int) -> _File:
        file, settings = self._file, self.settings
        if file is not None and (
            file.size >= settings.roll_bytes or time_ns - file.begun_ns >= settings.roll_ns
        ):
            self._end_file()
        if self._file is None:
            # Two files may begin with packets of the same time, but need different names.
            self._named_ns = max(time_ns, self._named_ns + 1)
            path = settings.folder / f"{settings.name}-{_moment(self._named_ns)}{ENDING}"
            self._file = _File(path, self._records.header, time_ns, settings.sync_ns)
            self.files += 1
        return self._file

    def _end_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def close(self) -> None:
        """Close the current file."""
        self._end_file()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _File:
    """A capture that grows by complete records; a separate thread syncs it periodically."""

    def __init__(self, path: Path, header: bytes, begun_ns: int, sync_ns: int) -> None:
        self.begun_ns = begun_ns
        self.size = 0
        self._path = path
        try:
            # Never open an existing file: two recorders of one name would corrupt each other's.
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            # Held until the file is closed or the process ends: marks the file as being written.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise _refused(path, error) from error
        self.append(memoryview(header))
        self._synced = 0
        self._closing = threading.Event()
        self._syncing = threading.Thread(
            target=self._sync_often, args=(sync_ns / SECOND,), name="pregao-sync", daemon=True
        )
        self._syncing.start()

    def append(self, records: memoryview) -> None:
        """Append complete records; if that fails (disk full), none of them remain."""
        begin = self.size
        try:
            while len(records):
                written = os.write(self._descriptor, records)
                self.size += written
                records = records[written:]
        except OSError as error:
            self.size = begin
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, begin)
                os.lseek(self._descriptor, begin, os.SEEK_SET)
            raise _refused(self._path, error) from error

    def _sync_often(self, every_s: float) -> None:
        while not self._closing.wait(every_s):
            size = self.size
            if size != self._synced:
                with contextlib.suppress(OSError):
                    os.fsync(self._descriptor)
                    self._synced = size

    def close(self) -> None:
        """Sync and close the file."""
        self._closing.set()
        self._syncing.join()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _refused(self._path, error) from error
        finally:
            os.close(self._descriptor)


def truncate_torn_record(folder: Path, name: str) -> int:
    """Truncate a torn record at the end of the newest file of a name. Returns the bytes removed."""
    files = sorted(folder.glob(f"{name}-*{ENDING}"))
    if not files:
        return 0
    newest = files[-1]
    try:
        with newest.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _cut(newest, file)
    except BlockingIOError:
        raise UsageError(
            f"{newest} is being written by another recorder; choose another folder or name."
        ) from None
    except OSError as error:
        raise _refused(newest, error) from error


def _cut(path: Path, file: BinaryIO) -> int:
    size = path.stat().st_size
    if size < len(UdpRecords.header):
        path.unlink()  # killed before anything was recorded
        return size
    with read_blocks(path) as reader:
        for _ in reader:
            pass
        tail = reader.truncated_tail
    if tail is None:
        return 0
    file.truncate(tail.position)
    return tail.length


def _moment(time_ns: int) -> str:
    """Return a time as part of a file name; names sort like times."""
    return format_ns(time_ns).replace(":", "").replace("-", "")


def _refused(path: Path, error: OSError) -> CaptureError:
    return CaptureError(f"{path}: cannot be written: {error.strerror}")
