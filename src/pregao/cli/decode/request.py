"""Run of ``pregao decode``: captures or a pasted packet, decoded into the requested output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pregao.api.reading.entrypoint import looks_like_sessions, pasted_messages
from pregao.api.reading.inputs import STANDARD_INPUT, CaptureInputs
from pregao.api.reading.selection import MessageSelection
from pregao.capture.blocks import PADDING, PacketBlock
from pregao.capture.layers import Flow
from pregao.cli.console import ReadingProgress
from pregao.cli.decode.outputs import (
    MessageOutput,
    SingleFileOutput,
    StandardOutput,
    Versions,
    open_output,
    output_kind,
    row_output,
    several_templates,
)
from pregao.cli.decode.pipeline import (
    CaptureContents,
    DecodeAccount,
    DecodePipeline,
    expected_versions,
    learn,
)
from pregao.errors import UsageError
from pregao.safe_io.output_files import NewFiles
from pregao.schemas.registry import Registry
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import Destination, LineNumbers, LineTable

if TYPE_CHECKING:
    from pregao.cli.decode.pipeline import DecodeAccount
import re

from pregao.capture.layers import ETHERNET, Datagram, PacketDissector, Segment
from pregao.capture.reader import Packet
from pregao.errors import DecodeError
from pregao.umdf.packets import decode_header, frames

_MAX_BYTES = 1 << 16
_OFFSET = re.compile(r"^\s*(?:0x)?([0-9a-fA-F]{3,16})(:?)\s+(?=\S)")
_DIGITS = re.compile(r"[0-9a-fA-F]+")
_BETWEEN = re.compile(r"0x|\\x|[\s,;:.\-|\"'\[\](){}]", re.IGNORECASE)


def packet_bytes(text: str) -> bytes:
    """Return the bytes of a packet as printed by xxd, hexdump, tcpdump or Wireshark."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = bytearray()
    dump = len(lines) > 0 and all(_offset(line) is not None for line in lines)
    first = (_offset(lines[0]) or ("", 0))[1] if dump else 0
    for line in lines:
        offset = _offset(line) if dump else None
        if offset is not None and offset[1] - first == len(found):
            found += _dump_line(offset[0])
        elif dump:
            raise UsageError(
                f"Offset {offset[1] if offset else 0:#x} of the hex dump does not match the "
                f"{len(found)} bytes before it. Paste all lines."
            )
        else:
            found += _plain(line)
    if not found:
        raise UsageError("--hex: no hexadecimal digits to decode.")
    if len(found) > _MAX_BYTES:
        raise UsageError(f"--hex: a packet has at most {_MAX_BYTES} bytes, was {len(found)}.")
    return market_data(bytes(found))


def _offset(line: str) -> tuple[str, int] | None:
    """Split a line into the text after its offset and the offset; None if it has no offset."""
    match = _OFFSET.match(line)
    if match is None:
        return None
    digits, colon = match.groups()
    rest = line[match.end() :]
    first = rest.split(maxsplit=1)[0]
    # Without a colon, an offset is recognized by being longer than the byte after it.
    if colon or (len(digits) >= 4 and len(first) == 2):
        return rest, int(digits, 16)
    return None


def _dump_line(rest: str) -> bytes:
    """Return the bytes of one line of a dump, without its text column."""
    rest = rest.partition("|")[0]
    found = bytearray()
    for segment in re.split(r"\s{2,}|\t", rest.strip()):
        tokens = segment.split()
        if segment == _as_text(bytes(found)) or not all(_is_bytes(token) for token in tokens):
            break
        found += bytes.fromhex("".join(tokens))
        if len(found) >= 32:
            break
    return bytes(found)


def _is_bytes(token: str) -> bool:
    return len(token) % 2 == 0 and len(token) <= 8 and _DIGITS.fullmatch(token) is not None


def _as_text(data: bytes) -> str:
    """Return bytes as the text column of a dump shows them."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def _plain(line: str) -> bytes:
    digits = _BETWEEN.sub("", line)
    if len(digits) % 2 or not _DIGITS.fullmatch(digits or "0"):
        wrong = next((c for c in digits if c not in "0123456789abcdefABCDEF"), None)
        reason = f"{wrong!r} is not a hexadecimal digit" if wrong else "a digit is missing"
        raise UsageError(f"--hex must be hexadecimal: {reason} in {line.strip()[:60]!r}.")
    return bytes.fromhex(digits)


def market_data(data: bytes) -> bytes:
    """Return the payload if the bytes are a complete Ethernet frame, else the bytes."""
    try:
        decode_header(data)
        next(frames(data))
    except DecodeError:
        item = PacketDissector().item(Packet(0, data, len(data), ETHERNET, 0, 1, 0))
        if isinstance(item, Datagram | Segment):
            return item.payload
    return data


_PASTED = Flow("0.0.0.0", 0, "0.0.0.0", 0)  # noqa: S104 - no socket: a packet without a flow


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """Settings of a decode run."""

    registry: Registry
    output: str | None = None
    format: str | None = None
    templates: frozenset[tuple[int, int]] | None = None
    security_ids: frozenset[int] | None = None
    symbols: Sequence[str] = ()
    channels: frozenset[int] | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int | None = None
    streams: dict[Destination, Stream]
    force: bool = False
    safe_csv: bool = False

    def selection(self) -> MessageSelection:
        """Return the selection of packets and messages, before symbols are resolved."""
        return MessageSelection(
            self.templates, self.security_ids, self.channels, self.since_ns, self.until_ns
        )


def decode_captures(request: DecodeRequest, names: Sequence[str]) -> DecodeAccount:
    """Decode captures into the requested output."""
    target, folder, kind = output_kind(request.output, request.format)
    captures = CaptureInputs(names)
    _refuse_inputs(target, captures)
    captures.check()
    selection, lines = request.selection(), LineTable(request.streams)
    # Lines are printed while reading; files need a first pass that detects streams and symbols.
    two_passes = target is not None or kind == "csv" or bool(request.symbols)
    with captures.kept() if two_passes else nullcontext(), NewFiles(force=request.force) as files:
        versions: Versions = {}
        if target is not None and not folder:
            files.check(target)
        if two_passes:
            with ReadingProgress("learning") as progress:
                learned = learn(
                    captures, selection, request.symbols, lines, request.registry, progress
                )
            versions = _planned(request, selection, learned, kind, folder=folder)
            if folder and target is not None:
                _prepare(target, kind, versions, files)
        pipeline = DecodePipeline(
            request.registry, selection, lines, learned=two_passes, limit=request.limit
        )
        output = open_output(files, target, folder, kind, versions, safe_csv=request.safe_csv)
        if isinstance(output, SingleFileOutput) and len(versions) == 1:
            output.begin(next(iter(versions)))
        with ReadingProgress("decoding", quiet=target is None) as progress:
            return _written(pipeline, captures, output, progress)


def _written(
    pipeline: DecodePipeline,
    captures: CaptureInputs,
    output: MessageOutput,
    progress: ReadingProgress,
) -> DecodeAccount:
    try:
        account = pipeline.run(captures, output, progress)
        output.close()
    except BaseException as error:
        output.abandon()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise UsageError(f"Cannot write the output: {reason}.") from error
        raise
    return account


def _planned(
    request: DecodeRequest,
    selection: MessageSelection,
    learned: CaptureContents,
    kind: str,
    *,
    folder: bool,
) -> Versions:
    """Return the templates to write, if they are known before decoding."""
    if folder or kind in ("jsonl", "text"):
        return learned.versions
    versions = expected_versions(selection, learned, request.registry)
    if not versions:
        raise UsageError(
            "No message in the input matches the selection; nothing to write. "
            "`pregao info` shows the contents of captures."
        )
    if len(versions) > 1 and request.limit is None:
        raise several_templates(pairs[0][1].name for pairs in versions.values())
    return versions


def _prepare(folder: Path, kind: str, versions: Versions, files: NewFiles) -> None:
    """Create the folder and check that no file in it would be replaced or mixed in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Cannot create folder {folder}: {error.strerror}.") from None
    names = {f"{pairs[0][1].name}.{kind}" for pairs in versions.values()}
    others = sorted(
        path.name for path in folder.glob(f"*.{kind}") if path.is_file() and path.name not in names
    )
    if others and not files.force:
        raise UsageError(
            f"{folder} already contains {kind} files, such as {others[0]}; choose another folder, "
            "or use --force to write into this one."
        )
    for name in names:
        files.check(folder / name)


def _refuse_inputs(target: Path | None, captures: CaptureInputs) -> None:
    """Raise `UsageError` if the output is one of the captures."""
    for name in captures.names:
        if target is None or name == STANDARD_INPUT or not target.exists():
            continue
        with suppress(OSError):
            if target.samefile(name):
                raise UsageError(f"{target} is an input capture; choose another output file.")


def decode_packet(request: DecodeRequest, text: str) -> DecodeAccount:
    """Decode one packet given in hexadecimal, and print it as text or JSON."""
    target, _folder, kind = output_kind(request.output, request.format)
    if target is not None or kind not in ("text", "jsonl"):
        raise UsageError("--hex prints to standard output: omit -o and use --format text or jsonl.")
    if request.symbols:
        raise UsageError("--hex cannot resolve --symbol (no definitions): use --security-id.")
    data = packet_bytes(text)
    block = PacketBlock(
        np.frombuffer(data + bytes(PADDING), np.uint8),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.array([len(data)], np.int32),
        np.ones(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int32),
    )
    lines = LineTable(request.streams)
    # One packet has few messages: Arrow would take longer to import than they take to decode.
    pipeline = DecodePipeline(
        request.registry, request.selection(), lines, learned=False, limit=request.limit, rows=True
    )
    output = row_output(kind, StandardOutput())
    if looks_like_sessions(data):
        pipeline.messages("<packet>", pasted_messages(data), [_PASTED], output)
    else:
        pipeline.block("<packet>", block, LineNumbers(lines, [_PASTED]), output)
    output.close()
    return pipeline.account
