"""Report of captures of the legacy feed: flows, streams, messages, and missing messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pregao.api.legacy_captures import LegacyReadStatistics, read_messages, reader_of
from pregao.clock import format_ns
from pregao.legacy.messages import MsgType
from pregao.legacy.streams import LegacyStream
from pregao.umdf.sequencing import StreamSequence, Verdict


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
