"""Sources of captures: paths, file objects and pyarrow.fs locations, plain or compressed."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from pregao.errors import CaptureError, UsageError
from pregao.extras import imported


class BinaryFile(Protocol):
    """Any object with a binary ``read``."""

    def read(self, count: int, /) -> bytes | None:
        """Return at most this many bytes; none at the end."""


Source = str | os.PathLike[str] | BinaryFile | tuple[Any, str]
"""A path, a URI (``s3://…``), an open binary file, or ``(pyarrow filesystem, path)``."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_PIECE = 1 << 16


def _read_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a third-party stream may raise when it cannot be read."""
    plain = (OSError, EOFError, ValueError, zlib.error)
    arrow = sys.modules.get("pyarrow")
    return plain if arrow is None else (*plain, arrow.ArrowException)


def _arrow() -> Any:
    """Import Arrow on first use; it reads zstd and locations such as S3."""
    with imported():
        import pyarrow as pa
        import pyarrow.fs
    return pa


def capture_error(name: str, position: int, reason: str) -> CaptureError:
    """Return an error with the file, the byte position and the reason."""
    return CaptureError(f"{name}: at byte {position}: {reason}")


class _Stored:
    """The stored bytes, read in order or, if possible, from any position.

    A file of known size is read up to the size it had when it was opened, so that a growing file
    appears as of that moment.
    """

    def __init__(self, name: str, stream: Any, *, owned: bool, size: int | None) -> None:
        self.name = name
        self.stream = stream
        self.owned = owned
        self.size = size
        self.at = 0
        self._ahead = b""
        try:
            self.seekable = bool(stream.seekable())
            self._origin: int = stream.tell() if self.seekable else 0
        except AttributeError:
            self.seekable = False
            self._origin = 0
        except _read_errors():
            self.seekable = False
            self._origin = 0

    def peek(self, count: int) -> bytes:
        """Return the next bytes without consuming them."""
        while len(self._ahead) < count:
            piece = bytearray(count - len(self._ahead))
            got = self._fill(memoryview(piece), self.at + len(self._ahead))
            if not got:
                break
            self._ahead += piece[:got]
        return self._ahead[:count]

    def readinto(self, view: memoryview) -> int:
        """Read once into the view, at most its size; 0 is the end."""
        if self._ahead:
            count = min(len(view), len(self._ahead))
            view[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
        else:
            count = self._fill(view, self.at)
        self.at += count
        return count

    def _fill(self, view: memoryview, at: int) -> int:
        if self.size is not None:
            view = view[: max(0, self.size - at)]
        if not len(view):
            return 0
        try:
            if hasattr(self.stream, "readinto"):
                got = self.stream.readinto(view)
            else:
                piece = self.stream.read(len(view))
                got = None if piece is None else len(piece)
                view[: len(piece or b"")] = piece or b""
        except _read_errors() as error:
            raise capture_error(self.name, at, f"cannot be read: {_sentence(error)}") from error
        except TypeError as error:
            reason = "is not a binary file: its read() must return bytes"
            raise UsageError(f"{self.name} {reason}") from error
        if got is None:
            raise capture_error(
                self.name, at, "the stream has no data yet; open it in blocking mode"
            )
        return int(got)

    def seek(self, position: int) -> None:
        """Seek to a position relative to where the file was when it was passed in."""
        try:
            self.stream.seek(self._origin + position)
        except _read_errors() as error:
            raise capture_error(self.name, position, f"cannot seek: {_sentence(error)}") from error
        self._ahead = b""
        self.at = position

    def find_size(self) -> int:
        """Return the number of bytes, found by seeking to the end if it is unknown."""
        if self.size is None:
            try:
                self.size = max(0, int(self.stream.seek(0, io.SEEK_END)) - self._origin)
            except _read_errors() as error:
                reason = f"cannot determine its size: {_sentence(error)}"
                raise capture_error(self.name, self.at, reason) from error
            self.seek(self.at)
        return self.size

    def close(self) -> None:
        """Close the file, if it was opened by this module."""
        if self.owned:
            self.stream.close()


class _Layer(Protocol):
    cut: bool

    def readinto(self, view: memoryview) -> int: ...


class _Plain:
    """Uncompressed bytes."""

    cut = False

    def __init__(self, stored: _Stored) -> None:
        self.readinto = stored.readinto


class _Gzip:
    """One or more concatenated gzip members."""

    def __init__(self, stored: _Stored) -> None:
        self._stored = stored
        self._member = zlib.decompressobj(wbits=31)
        self._waiting = b""
        self._fresh = True
        self.cut = False

    def readinto(self, view: memoryview) -> int:
        while True:
            if not self._waiting:
                piece = bytearray(_PIECE)
                self._waiting = bytes(piece[: self._stored.readinto(memoryview(piece))])
                if not self._waiting and self._fresh:
                    return 0
            if self._fresh:
                # Some writers pad the last member with zeros to fill a block of their medium.
                self._waiting = self._waiting.lstrip(b"\0")
                if not self._waiting:
                    continue
            # With no input left, the decompressor may still have output that did not fit before.
            try:
                out = self._member.decompress(self._waiting, len(view))
            except zlib.error as error:
                reason = f"the gzip data is damaged: {_sentence(error)}"
                raise capture_error(self._stored.name, self._stored.at, reason) from error
            if not out and not self._waiting:
                self.cut = True
                return 0
            self._fresh = False
            self._waiting = self._member.unconsumed_tail
            if self._member.eof:
                self._waiting = self._member.unused_data
                self._member = zlib.decompressobj(wbits=31)
                self._fresh = True
            if out:
                view[: len(out)] = out
                return len(out)


class _Feed(io.RawIOBase):
    """The stored bytes as a file object for pyarrow."""

    def __init__(self, stored: _Stored) -> None:
        self._stored = stored

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        return self._stored.readinto(memoryview(view))


def _opened_zstd(stored: _Stored) -> Any:
    pa = _arrow()
    return pa.CompressedInputStream(pa.PythonFile(_Feed(stored), mode="r"), "zstd")


class _Zstd:
    """One or more concatenated zstd frames.

    The decompressor discards the bytes of the read in which it finds its input truncated. If the
    file can be re-read from its start, a second pass fetches them; from a pipe, at most the last 64
    KiB are lost.
    """

    def __init__(self, stored: _Stored) -> None:
        self._stored = stored
        self._stream = _opened_zstd(stored)
        self._given = 0
        self._last: bytes | None = None
        self.cut = False

    def readinto(self, view: memoryview) -> int:
        piece: bytes
        if self._last is None:
            try:
                piece = self._stream.read(min(len(view), _PIECE))
            except _read_errors() as error:
                if "runcated" not in str(error):
                    reason = f"the zstd data is damaged: {_sentence(error)}"
                    raise capture_error(self._stored.name, self._stored.at, reason) from error
                self.cut = True
                self._last = self._rescue() if self._stored.seekable else b""
        if self._last is not None:
            piece, self._last = self._last[: len(view)], self._last[len(view) :]
        view[: len(piece)] = piece
        self._given += len(piece)
        return len(piece)

    def _rescue(self) -> bytes:
        """Return the bytes after those returned so far, read one at a time so that none is lost."""
        self._stored.seek(0)
        stream = _opened_zstd(self._stored)
        found = bytearray()
        try:
            left = self._given
            while left:
                left -= len(stream.read(min(left, _PIECE)))
            while len(found) <= _PIECE and (byte := stream.read(1)):
                found += byte
        except _read_errors():
            pass
        return bytes(found)


class ByteSource:
    """The bytes of a capture: opened, named, and decompressed if necessary.

    ``compression`` is detected from the content, never from the name. ``cut`` states, once the end
    was reached, that the compressed data is truncated.
    """

    def __init__(self, stored: _Stored) -> None:
        self.name = stored.name
        self._stored = stored
        head = stored.peek(4)
        self.compression: str | None = None
        layer: Callable[[_Stored], _Layer] = _Plain
        if head[:2] == _GZIP:
            self.compression, layer = "gzip", _Gzip
        elif head == _ZSTD or (head[1:] == _ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50):
            self.compression, layer = "zstd", _Zstd
        self._layer = layer(stored)

    @property
    def cut(self) -> bool:
        """Whether the compressed data is truncated."""
        return self._layer.cut

    @property
    def random_access(self) -> bool:
        """Whether bytes can be read from any position: only if uncompressed and seekable."""
        return self.compression is None and self._stored.seekable

    def size(self) -> int:
        """Return the number of bytes of a source with random access."""
        return self._stored.find_size()

    def seek(self, position: int) -> None:
        """Seek to a position of a source with random access."""
        self._stored.seek(position)

    def readinto(self, view: memoryview) -> int:
        """Fill the view; a smaller result means that the end was reached."""
        filled = 0
        while filled < len(view):
            got = self._layer.readinto(view[filled:])
            if not got:
                break
            filled += got
        return filled

    def read(self, count: int) -> bytes:
        """Read this many bytes, or up to the end."""
        # Grown as bytes arrive, so that a length that the file merely claims costs no memory.
        found = bytearray()
        while len(found) < count:
            piece = bytearray(min(count - len(found), 1 << 20))
            got = self.readinto(memoryview(piece))
            found += piece[:got] if got < len(piece) else piece
            if got < len(piece):
                break
        return bytes(found)

    def read_at(self, position: int, count: int) -> bytes:
        """Read bytes at a position of a source with random access."""
        self.seek(position)
        return self.read(count)

    def close(self) -> None:
        """Close the source, unless it is a file object passed in by the caller."""
        self._stored.close()

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_source(source: Source) -> ByteSource:
    """Open the bytes of a capture.

    Raises:
        CaptureError: It cannot be opened.
        UsageError: The argument is not a source.
    """
    stored = _open_stored(source)
    try:
        return ByteSource(stored)
    except BaseException:
        stored.close()
        raise


def _open_stored(source: Source) -> _Stored:
    if isinstance(source, str) and _URI.match(source):
        arrow = _arrow()
        try:
            filesystem, path = arrow.fs.FileSystem.from_uri(source)
        except _read_errors() as error:
            raise CaptureError(f"{source}: cannot be opened: {_sentence(error)}") from error
        return _open_on(filesystem, path, source)
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source))
    if isinstance(source, tuple):
        if len(source) != 2 or not isinstance(source[0], _arrow().fs.FileSystem):
            raise UsageError("A tuple as a capture must be (pyarrow filesystem, path).")
        return _open_on(source[0], str(source[1]), str(source[1]))
    if isinstance(source, io.TextIOBase):
        raise UsageError("The capture was opened as text; open it in binary mode ('rb').")
    if not hasattr(source, "read"):
        kind = type(source).__name__
        raise UsageError(f"A capture is a path, a URI or a binary file, not a {kind}.")
    name = getattr(source, "name", None)
    return _Stored(
        name if isinstance(name, str) else "<stream>", source, owned=False, size=_size_of(source)
    )


def _open_path(path: Path) -> _Stored:
    try:
        stream = path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise CaptureError(f"{path}: there is no such file") from error
    except IsADirectoryError as error:
        raise CaptureError(f"{path}: is a directory; specify a capture file in it") from error
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path}: cannot be opened: {_sentence(error)}") from error
    return _Stored(str(path), stream, owned=True, size=_size_of(stream))


def _open_on(filesystem: Any, path: str, name: str) -> _Stored:
    try:
        stream = filesystem.open_input_file(path)
        return _Stored(name, stream, owned=True, size=int(stream.size()))
    except FileNotFoundError as error:
        raise CaptureError(f"{name}: there is no such file") from error
    except _read_errors() as error:
        raise CaptureError(f"{name}: cannot be opened: {_sentence(error)}") from error


def _size_of(stream: Any) -> int | None:
    """Return the bytes from the current position to the end of a regular file; None if unknown."""
    plain = stream.raw if isinstance(stream, io.BufferedReader | io.BufferedRandom) else stream
    if not isinstance(plain, io.FileIO):
        return None
    try:
        status = os.fstat(plain.fileno())
        if not stat.S_ISREG(status.st_mode):
            return None
        return max(0, status.st_size - int(stream.tell()))
    except (OSError, ValueError):
        return None


def _sentence(error: BaseException) -> str:
    """Return the text of an error, on one line and shortened."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
