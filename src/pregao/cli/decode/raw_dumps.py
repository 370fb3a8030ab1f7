"""Ingest of raw dumps of the legacy feed: concatenated datagrams without a capture format.

Raw dumps have neither capture times nor destinations. The sending times of the messages replace
the former; the channel, which the user states per file, and the stream, which is detected from the
messages, replace the latter.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.capture.writer import PcapWriter, UdpFramer
from pregao.cli.console import console, print_line
from pregao.errors import CaptureError, UsageError
from pregao.lake.ingest.protocols.legacy_channels import UNKNOWN, VARIABLE, dump_flow, known_channel
from pregao.legacy.bulk import ChunkColumns, HeadReader, chunk_columns
from pregao.legacy.messages import MessageReader, message_type
from pregao.legacy.reassembly import HEADER_SIZE
from pregao.legacy.streams import RAW_HEAD, LegacyStream, is_raw_dump, stream_of
from pregao.schemas.fast_templates import bundled_templates

_PIECE = 1 << 23


@contextmanager
def dumps_as_captures(
    names: Iterable[str], master: str | None, *, quiet: bool = False
) -> Iterator[list[str]]:
    """Convert raw dumps to temporary captures; yield the names with captures instead of dumps."""
    with tempfile.TemporaryDirectory(prefix="pregao-dumps-") as folder:
        found = []
        for number, name in enumerate(names):
            if not _is_dump(name):
                found.append(name)
                continue
            if master is not None and not master.startswith("local"):
                raise UsageError(
                    f"{name} is a raw dump, which is converted to a local capture that {master} "
                    "cannot read. Ingest it with --engine local."
                )
            path = Path(folder) / str(number) / f"{Path(name).name}.pcap"
            path.parent.mkdir()
            write_capture(Path(name), path)
            if not quiet:
                print_line(
                    console(sys.stderr),
                    f"{name}: raw dump of the legacy feed, without capture times and addresses. "
                    "The sending times of its messages are used as capture times.",
                )
            found.append(str(path))
        yield found


def _is_dump(name: str) -> bool:
    path = Path(name)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(RAW_HEAD)
    return is_raw_dump(head, MessageReader())


def write_capture(dump: Path, path: Path) -> None:
    """Write a raw dump as a capture."""
    channel = known_channel(str(dump))
    channel = known_channel(dump.name) if channel == UNKNOWN else channel
    if channel == UNKNOWN:
        raise UsageError(
            f"{dump}: raw dump of the legacy feed, whose messages do not state their channel. "
            f"Set it: {VARIABLE}='{dump.name}=51' (separate several files with commas)."
        )
    heads = HeadReader(bundled_templates())
    framer: UdpFramer | None = None
    time_ns = 0
    with PcapWriter(path) as writer:
        for buffer, chunks in _pieces(dump):
            found = heads.read(buffer, chunks.start, chunks.size)
            first = (chunks.index == 1) & (found.sending_time_ns > 0)
            if framer is None:
                address, port = dump_flow(channel, _stream(found.template[first]))
                framer = UdpFramer("0.0.0.0", 0, address, port)  # noqa: S104 - in a file only
                times = found.sending_time_ns[first]
                time_ns = int(times[0]) if len(times) else 0
            data = buffer.tobytes()
            # Later chunks of a message have no sending time: use that of the first chunk.
            sent = np.where(first, found.sending_time_ns, 0).tolist()
            for start, size, own in zip(
                chunks.start.tolist(), chunks.size.tolist(), sent, strict=True
            ):
                time_ns = own or time_ns
                writer.write(time_ns, framer.frame(data[start - HEADER_SIZE : start + size]))


def _stream(templates: Int64Array) -> int:
    """Return the number of the stream to which the templates of a dump belong; 0 if unknown."""
    known = bundled_templates().by_id
    stream = stream_of({message_type(known[number]) for number in np.unique(templates).tolist()})
    return 0 if stream is None else [*LegacyStream].index(stream) + 1


def _pieces(dump: Path) -> Iterator[tuple[npt.NDArray[np.uint8], ChunkColumns]]:
    """Yield the chunks of a dump in pieces; an invalid chunk is reported with its offset."""
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
            f"{dump}, byte {position}: not a complete chunk of the legacy feed. "
            "A raw dump must contain concatenated datagrams and nothing else."
        )
