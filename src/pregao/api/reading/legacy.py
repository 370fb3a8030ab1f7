"""Captures and raw dumps of the legacy feed: detection by content, messages, and a report.

Messages are read in their FAST form or in the common message form; the report has the flows,
streams, messages and missing messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pregao.api.message import Message, Protocol
from pregao.api.reading.inputs import STANDARD_INPUT, CaptureInputs
from pregao.capture.block_reader import read_blocks
from pregao.capture.layers import Flow
from pregao.capture.pcap import is_pcap
from pregao.capture.source import open_source
from pregao.clock import format_ns
from pregao.errors import CaptureError, DecodeError, PregaoError, UsageError
from pregao.fast.xml import load_templates
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.reassembly import Assembler, read_chunks
from pregao.legacy.streams import RAW_HEAD, LegacyStream, is_raw_dump, mostly_legacy, stream_of
from pregao.umdf.sequencing import StreamSequence, Verdict
from pregao.umdf.survey.lines import Destination

_SAMPLED_DATAGRAMS = 64
_PCAPNG_MAGIC = b"\n\r\r\n"
_READ_BYTES = 1 << 20


# --- Detection ---


def reader_of(schema: Path | None) -> MessageReader:
    """Return a reader with the bundled templates, or those of a file."""
    return MessageReader(None if schema is None else load_templates(schema))


def are_legacy(names: Sequence[str], schema: Path | None = None) -> bool:
    """Whether the captures are of the legacy feed; raises UsageError if only some of them are."""
    if STANDARD_INPUT in names:
        return False
    try:
        reader = reader_of(schema)
        captures = CaptureInputs(names).names
    except PregaoError:
        return False  # the caller reads them too, and reports the error
    found = [name for name in captures if _is_legacy(name, reader)]
    if found and len(found) < len(captures):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise UsageError(
            f"{found[0]}{more}: captures of the legacy feed (UMDF FIX/FAST) cannot be mixed with "
            "others. Read them separately."
        )
    return bool(found)


def _is_legacy(name: str, reader: MessageReader) -> bool:
    try:
        return _looks_legacy(name, reader)
    except (PregaoError, OSError):
        return False


def _looks_legacy(name: str, reader: MessageReader) -> bool:
    if "://" not in name and Path(name).exists() and not Path(name).is_file():
        return False  # a pipe can be read once
    if is_dump(name):
        with Path(name).open("rb") as file:
            return is_raw_dump(file.read(RAW_HEAD), reader)
    with read_blocks(name, block_bytes=1 << 16) as blocks:
        payloads = (block.payload(row) for block in blocks for row in range(len(block)))
        return mostly_legacy(islice(payloads, _SAMPLED_DATAGRAMS), reader)


def is_dump(name: str) -> bool:
    """Whether it is a file that is not a capture."""
    if not Path(name).is_file():
        return False
    with open_source(name) as source:
        head = source.read(4)
    return head != _PCAPNG_MAGIC and not is_pcap(head)


# --- Messages in their FAST form ---


class LegacyReadResult(NamedTuple):
    """A message of a capture, or why it could not be read."""

    name: str
    """Name of the capture."""
    time_ns: int
    """Capture time; 0 in a raw dump."""
    position: int
    flow: str
    number: int
    message: LegacyMessage | None
    reason: str = ""


@dataclass(slots=True)
class LegacyReadStatistics:
    """Statistics of what was read."""

    datagrams: int = 0
    messages: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    first_rejects: list[str] = field(default_factory=list)
    abandoned: int = 0
    """Messages with missing chunks."""
    damaged: list[str] = field(default_factory=list)
    types: dict[str, Counter[MsgType]] = field(default_factory=dict)
    """Message types by flow, from which its stream is detected."""

    def stream(self, flow: str) -> LegacyStream | None:
        """Return the stream of a flow, if known."""
        return stream_of(self.types.get(flow, Counter()))

    def reject(self, read: LegacyReadResult) -> None:
        """Count a message that could not be read."""
        self.rejects[read.reason] += 1
        if len(self.first_rejects) < 10:
            location = f"{read.name}, byte {read.position}, message {read.number}"
            self.first_rejects.append(f"{location}: {read.reason}")


def read_messages(
    names: Sequence[str], reader: MessageReader, account: LegacyReadStatistics
) -> Iterator[LegacyReadResult]:
    """Yield all messages of captures and raw dumps, in the order of the files."""
    for name in CaptureInputs(names).names:
        waiting: dict[str, Assembler] = {}
        try:
            for time_ns, position, flow, datagram in _datagrams(name):
                account.datagrams += 1
                assembler = waiting.setdefault(flow, Assembler())
                for found in _messages(datagram, assembler, reader, time_ns):
                    read = LegacyReadResult(name, time_ns, position, flow, *found)
                    if read.message is None:
                        account.reject(read)
                    else:
                        account.messages += 1
                        account.types.setdefault(flow, Counter())[read.message.type] += 1
                    yield read
        except CaptureError as error:
            account.damaged.append(str(error))
        account.abandoned += sum(each.abandoned + each.waiting for each in waiting.values())


def _messages(
    datagram: bytes, assembler: Assembler, reader: MessageReader, time_ns: int
) -> Iterator[tuple[int, LegacyMessage | None, str]]:
    try:
        for chunk in read_chunks(datagram):
            assembled = assembler.add(chunk, time_ns)
            if assembled is None:
                continue
            try:
                yield assembled.number, reader.read(assembled), ""
            except DecodeError as error:
                yield assembled.number, None, error.reason
    except DecodeError as error:
        yield 0, None, error.reason


def _datagrams(name: str) -> Iterator[tuple[int, int, str, bytes]]:
    if is_dump(name):
        yield from _dumped(name)
        return
    with read_blocks(name) as reader:
        flows: list[str] = []
        for block in reader:
            flows += [_destination(flow) for flow in reader.flows[len(flows) :]]
            for row in range(len(block)):
                flow = flows[int(block.flow[row])]
                yield int(block.time_ns[row]), int(block.position[row]), flow, block.payload(row)


def _destination(flow: Flow) -> str:
    return str(Destination(flow.dst, flow.dst_port))


def _dumped(name: str) -> Iterator[tuple[int, int, str, bytes]]:
    """Yield the chunks of a raw dump, each as a separate datagram."""
    position = 0
    held = b""
    with Path(name).open("rb") as file:
        while piece := file.read(_READ_BYTES):
            held += piece
            start = 0
            while start + 10 <= len(held):
                end = start + 10 + int.from_bytes(held[start + 8 : start + 10], "big")
                if end > len(held):
                    break
                yield 0, position + start, name, held[start:end]
                start = end
            position += start
            held = held[start:]
    if held:
        yield 0, position, name, held


# --- Messages in the common form ---


def legacy_messages(
    names: Sequence[str],
    templates: Sequence[str],
    since_ns: int | None,
    until_ns: int | None,
    rejects: Counter[str],
) -> Iterator[Message]:
    """Yield the messages of some templates (by name or number) captured within the time range."""
    reader, account = reader_of(None), LegacyReadStatistics()
    known = reader.templates.by_id
    wanted = set(known)
    if templates:
        wanted = {number for number in known if {known[number].name, str(number)} & set(templates)}
        if not wanted:
            names_known = ", ".join(sorted(each.name for each in known.values()))
            raise UsageError(f"There is no template {templates[0]!r}; available: {names_known}.")
    rejects.clear()
    for read in read_messages(names, reader, account):
        message = read.message
        if message is None:
            rejects[read.reason] += 1
            continue
        timely = (since_ns is None or read.time_ns >= since_ns) and (
            until_ns is None or read.time_ns < until_ns
        )
        if timely and message.template_id in wanted:
            yield Message(
                Protocol.LEGACY,
                known[message.template_id].name,
                message.template_id,
                None,
                message.values,
                read.time_ns or None,
                message.sending_time_ns,
                message.number,
                flow=read.flow,
            )
    if account.damaged:
        raise CaptureError(account.damaged[0])


# --- Report ---


@dataclass(slots=True)
class _Flow:
    """Statistics of a flow."""

    messages: int = 0
    heartbeats: int = 0
    resets: int = 0
    first_ns: int = 0
    last_ns: int = 0
    missing: int = 0
    duplicates: int = 0
    late: int = 0
    lowest: int = 0
    highest: int = 0
    entries: int = 0
    version: int = 1
    sequence: StreamSequence = field(default_factory=StreamSequence)


def legacy_report(names: Sequence[str], schema: Path | None) -> dict[str, Any]:
    """Return the report of captures of the legacy feed as JSON values."""
    reader = reader_of(schema)
    account = LegacyReadStatistics()
    flows: dict[str, _Flow] = {}
    templates: Counter[int] = Counter()
    for read in read_messages(names, reader, account):
        message = read.message
        if message is None:
            continue
        templates[message.template_id] += 1
        flow = flows.setdefault(read.flow, _Flow(first_ns=read.time_ns))
        flow.messages += 1
        flow.last_ns = read.time_ns
        flow.entries += len(message.values.get("MDEntries", ()))
        _sequence(flow, message.type, message.number)
    return {
        "protocol": "UMDF FIX/FAST",
        "files": list(names),
        "datagrams": account.datagrams,
        "messages": account.messages,
        "chunks_missing": account.abandoned,
        "flows": [_shown(name, flow, account.stream(name)) for name, flow in flows.items()],
        "templates": [
            {
                "template": number,
                "message": reader.templates.by_id[number].name,
                "messages": count,
            }
            for number, count in templates.most_common()
        ],
        "rejects": dict(account.rejects.most_common()),
        "damaged": account.damaged,
    }


def _sequence(flow: _Flow, kind: MsgType, number: int) -> None:
    if kind is MsgType.HEARTBEAT:
        flow.heartbeats += 1
    if kind is MsgType.SEQUENCE_RESET:
        flow.resets += 1
        flow.version += 1
        return
    arrival = flow.sequence.accept(flow.version, number)
    flow.highest = max(flow.highest, number)
    flow.lowest = min(flow.lowest or number, number)
    if arrival.missing is not None:
        flow.missing += len(arrival.missing)
    match arrival.verdict:
        case Verdict.LATE:
            flow.missing -= 1
            flow.late += 1
        case Verdict.DUPLICATE if kind is not MsgType.HEARTBEAT:
            flow.duplicates += 1


def _shown(name: str, flow: _Flow, stream: LegacyStream | None) -> dict[str, Any]:
    timed = flow.last_ns > 0
    return {
        "flow": name,
        "stream": None if stream is None else stream.value,
        "messages": flow.messages,
        "entries": flow.entries,
        "heartbeats": flow.heartbeats,
        "resets": flow.resets,
        "lowest": flow.lowest,
        "highest": flow.highest,
        "missing": flow.missing,
        "duplicates": flow.duplicates,
        "late": flow.late,
        "first": format_ns(flow.first_ns) if timed else None,
        "last": format_ns(flow.last_ns) if timed else None,
    }
