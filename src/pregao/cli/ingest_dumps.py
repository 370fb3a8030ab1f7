"""Raw dumps of the legacy feed for an ingest: datagrams without a capture around them.

They lack what a capture tells: when each datagram came, and where it was sent to. The sending times
of the messages are taken for the one; the file's channel, which the user names, and the stream that
its messages show for the other.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pregao.capture import PcapWriter, UdpFramer
from pregao.cli.terminal import console, say
from pregao.errors import CaptureError, UsageError
from pregao.lake.ingest.legacy.channels import UNKNOWN, VARIABLE, dump_flow, known_channel
from pregao.legacy import MessageReader, Stream, message_type, stream_of
from pregao.legacy.bulk import ChunkColumns, HeadReader, chunk_columns
from pregao.legacy.chunks import HEADER_SIZE
from pregao.legacy.recognition import RAW_HEAD, is_raw_dump
from pregao.schemas import bundled_templates

_PIECE = 1 << 23
Numbers = npt.NDArray[np.int64]


@contextmanager
def dumps_as_captures(
    names: Iterable[str], master: str | None, *, quiet: bool = False
) -> Iterator[list[str]]:
    """The names with captures in place of raw dumps; these are gone when the ingest is over."""
    with tempfile.TemporaryDirectory(prefix="pregao-dumps-") as folder:
        found = []
        for number, name in enumerate(names):
            if not _is_dump(name):
                found.append(name)
                continue
            if master is not None and not master.startswith(("here", "local")):
                raise UsageError(
                    f"{name}: a raw dump is made a capture on this machine, where {master} does "
                    "not find it. Take it in with --master here."
                )
            place = Path(folder) / str(number) / f"{Path(name).name}.pcap"
            place.parent.mkdir()
            write_capture(Path(name), place)
            if not quiet:
                say(
                    console(sys.stderr),
                    f"{name}: a raw dump of the legacy feed. It has no capture times and no "
                    "addresses: the sending times of its messages are taken instead.",
                )
            found.append(str(place))
        yield found


def _is_dump(name: str) -> bool:
    path = Path(name)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(RAW_HEAD)
    return is_raw_dump(head, MessageReader())


def write_capture(dump: Path, place: Path) -> None:
    """Write a raw dump as a capture."""
    channel = known_channel(str(dump))
    channel = known_channel(dump.name) if channel == UNKNOWN else channel
    if channel == UNKNOWN:
        raise UsageError(
            f"{dump}: a raw dump of the legacy feed, whose messages do not name their channel. "
            f"Name it: {VARIABLE}='{dump.name}=51', more of them with commas."
        )
    heads = HeadReader(bundled_templates())
    framer: UdpFramer | None = None
    time_ns = 0
    with PcapWriter(place) as writer:
        for buffer, chunks in _pieces(dump):
            found = heads.read(buffer, chunks.start, chunks.size)
            first = (chunks.index == 1) & (found.sending_time_ns > 0)
            if framer is None:
                address, port = dump_flow(channel, _stream(found.template[first]))
                framer = UdpFramer("0.0.0.0", 0, address, port)  # noqa: S104 - in a file only
                times = found.sending_time_ns[first]
                time_ns = int(times[0]) if len(times) else 0
            data = buffer.tobytes()
            # A later chunk of a message came when the first one did, as far as anybody knows.
            sent = np.where(first, found.sending_time_ns, 0).tolist()
            for start, size, own in zip(
                chunks.start.tolist(), chunks.size.tolist(), sent, strict=True
            ):
                time_ns = own or time_ns
                writer.write(time_ns, framer.frame(data[start - HEADER_SIZE : start + size]))


def _stream(templates: Numbers) -> int:
    """A number for the stream that explains the templates of a dump."""
    known = bundled_templates().by_id
    stream = stream_of({message_type(known[number]) for number in np.unique(templates).tolist()})
    return 0 if stream is None else [*Stream].index(stream) + 1


def _pieces(dump: Path) -> Iterator[tuple[npt.NDArray[np.uint8], ChunkColumns]]:
    """The chunks of a dump, piece by piece; what is no chunk is told with its place."""
    position = 0
    held = b""
    with dump.open("rb") as file:
        while piece := file.read(_PIECE):
            held += piece
            buffer = np.frombuffer(held + bytes(8), np.uint8)
            length = np.array([len(held)], np.int32)
            chunks = chunk_columns(buffer, np.zeros(1, np.int64), length)
            if not len(chunks.start):
                break
            yield buffer, chunks
            end = int(chunks.start[-1] + chunks.size[-1])
            position, held = position + end, held[end:]
    if held:
        raise CaptureError(
            f"{dump}, byte {position}: what follows is no whole chunk of the legacy feed. "
            "A raw dump is datagrams one behind the other, and nothing else."
        )
