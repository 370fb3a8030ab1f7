"""``pregao decode`` of the legacy feed: every message as a line of text or JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

from pregao.api.reading.legacy import (
    LegacyReadResult,
    LegacyReadStatistics,
    read_messages,
    reader_of,
)
from pregao.api.reading.selection import instruments
from pregao.cli.console import plain
from pregao.cli.decode.outputs import StandardOutput, output_kind
from pregao.clock import format_ns
from pregao.errors import UsageError
from pregao.fast.model import Templates
from pregao.legacy.messages import LegacyMessage
from pregao.legacy.streams import LegacyStream
from pregao.name_matching import folded
from pregao.safe_io.output_files import NewFiles

_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRequest:
    """Settings of a decode run of the legacy feed."""

    output: str | None
    format: str | None
    templates: Sequence[str]
    security_ids: frozenset[int] | None
    symbols: Sequence[str]
    since_ns: int | None
    until_ns: int | None
    limit: int | None
    schema: Path | None
    force: bool
    safe_csv: bool = False


def decode_legacy(request: LegacyRequest, names: Sequence[str]) -> int:
    """Decode captures of the legacy feed; return the number of rejects and damaged files."""
    target, folder, kind = output_kind(request.output, request.format)
    if folder and target is not None:
        return _to_folder(request, names, target, kind)
    if kind not in ("text", "jsonl"):
        raise UsageError(
            f"Captures of the legacy feed (UMDF FIX/FAST) cannot be written to one {kind} file: "
            "use JSON lines (-o messages.jsonl), or a folder of tables (-o folder/)."
        )
    reader = reader_of(request.schema)
    wanted = _templates(request.templates, reader.templates)
    account = LegacyReadStatistics()
    started = time.perf_counter()
    line = _json_line if kind == "jsonl" else _text_line
    with NewFiles(force=request.force) as files:
        stream: BinaryIO | StandardOutput = (
            StandardOutput() if target is None else files.create(target)
        )
        _write(request, names, wanted, reader, account, stream, line)
    _print_summary(account, time.perf_counter() - started)
    return account.rejects.total() + len(account.damaged)


def _to_folder(request: LegacyRequest, names: Sequence[str], folder: Path, kind: str) -> int:
    """Decode into a folder of tables."""
    from pregao.cli.decode.legacy_tables import LegacyTableWriter, prepare

    if request.symbols or request.limit is not None:
        raise UsageError(
            "--symbol and --limit of the legacy feed require text or JSON lines: omit them, or "
            "write to standard output or a .jsonl file."
        )
    prepare(folder, kind)
    templates = reader_of(request.schema).templates
    account, started = LegacyReadStatistics(), time.perf_counter()
    with NewFiles(force=request.force) as files:
        writer = LegacyTableWriter(
            folder, kind, files, templates, _templates(request.templates, templates),
            request.security_ids, request.since_ns, request.until_ns, request.safe_csv,
        )  # fmt: skip
        writer.write(names, account)
    _print_summary(account, time.perf_counter() - started)
    return account.rejects.total() + len(account.damaged)


def _write(
    request: LegacyRequest,
    names: Sequence[str],
    wanted: frozenset[int] | None,
    reader: Any,
    account: LegacyReadStatistics,
    stream: BinaryIO | StandardOutput,
    line: Callable[[LegacyReadResult, LegacyMessage, str, LegacyStream | None], str],
) -> None:
    symbols: dict[int, str] = {}
    named = {folded(symbol) for symbol in request.symbols}
    remaining = request.limit
    lines: list[str] = []
    for read in read_messages(names, reader, account):
        message = read.message
        if message is None:
            continue
        for row in message.values.get("RelatedSym", ()):
            if "Symbol" in row:
                symbols[row["SecurityID"]] = folded(row["Symbol"])
        if not _in_time(request, read.time_ns):
            continue
        ids = _instruments(message)
        if wanted is not None and message.template_id not in wanted:
            continue
        if request.security_ids is not None and request.security_ids.isdisjoint(ids):
            continue
        if named and named.isdisjoint(symbols.get(each, "") for each in ids):
            continue
        name = reader.templates.by_id[message.template_id].name
        lines.append(line(read, message, name, account.stream(read.flow)))
        if len(lines) >= _LINES_AT_ONCE:
            stream.write("".join(lines).encode())
            lines.clear()
        if remaining is not None:
            remaining -= 1
            if remaining == 0:
                break
    stream.write("".join(lines).encode())
    if named and remaining != 0:
        own = {symbol: {number} for number, symbol in symbols.items() if symbol in named}
        instruments(named, own, None, known=symbols.values())  # raises an error for unknown ones


def _in_time(request: LegacyRequest, time_ns: int) -> bool:
    since, until = request.since_ns, request.until_ns
    return (since is None or time_ns >= since) and (until is None or time_ns < until)


def _instruments(message: LegacyMessage) -> set[int]:
    values = message.values
    rows = (*values.get("MDEntries", ()), *values.get("RelatedSym", ()), values)
    return {row["SecurityID"] for row in rows if row.get("SecurityID") is not None}


def _templates(names: Sequence[str], templates: Templates) -> frozenset[int] | None:
    """Return the IDs of templates given by ID, by name, or by the name of their message."""
    if not names:
        return None
    found: set[int] = set()
    for name in names:
        own = {
            number
            for number, each in templates.by_id.items()
            if name in (str(number), each.name, each.name.rpartition("_")[0])
        }
        if not own:
            known = ", ".join(sorted({each.name for each in templates.templates}))
            raise UsageError(
                f"--template: the legacy feed has no template {name}; known templates: {known}."
            )
        found |= own
    return frozenset(found)


def _json_line(
    read: LegacyReadResult, message: LegacyMessage, name: str, stream: LegacyStream | None
) -> str:
    head: dict[str, Any] = {
        "message": name,
        "sequence_number": message.number,
        "stream": None if stream is None else stream.value,
        "flow": read.flow,
        "capture_time_ns": read.time_ns,
        "sending_time_ns": message.sending_time_ns,
    }
    own = {key: value for key, value in message.values.items() if key not in _IN_HEAD}
    return plain(json.dumps(head | own, default=_plain, separators=(",", ":"))) + "\n"


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


_IN_HEAD = ("MsgSeqNum", "SendingTime", "MsgType", "ApplVerID")


def _text_line(
    read: LegacyReadResult, message: LegacyMessage, name: str, _stream: LegacyStream | None
) -> str:
    head = f"{format_ns(read.time_ns)} {read.flow} {message.number} {name}"
    own = {key: value for key, value in message.values.items() if key not in _IN_HEAD}
    return f"{head} {_text(own)}\n".rstrip(" ") if own else f"{head}\n"


def _text(values: Mapping[str, Any]) -> str:
    parts = []
    for name, value in values.items():
        if isinstance(value, list):
            rows = " ".join(f"{{{_text(row)}}}" for row in value)
            parts.append(f"{name}=[{rows}]")
        elif isinstance(value, str):
            quoted = not value or " " in value or not value.isprintable()
            parts.append(f"{name}={value!r}" if quoted else f"{name}={value}")
        else:
            parts.append(f"{name}={value if isinstance(value, int | Decimal) else _plain(value)}")
    return " ".join(parts)


def _print_summary(account: LegacyReadStatistics, seconds: float) -> None:
    for message in account.damaged:
        _print_line(f"{message}; the rest of that file was not read")
    for reject in account.first_rejects:
        _print_line(f"rejected: {reject}")
    more = account.rejects.total() - len(account.first_rejects)
    if more > 0:
        _print_line(f"… and {more:,} more, by reason:")
        for reason, count in account.rejects.most_common(10):
            _print_line(f"  {count:,} × {reason}")
    if account.abandoned:
        _print_line(f"{account.abandoned:,} messages with missing chunks were skipped")
    rate = account.messages / seconds if seconds > 0 else 0.0
    _print_line(
        f"legacy feed (UMDF FIX/FAST): {account.datagrams:,} datagrams, "
        f"{account.messages:,} messages, {account.rejects.total():,} rejected in {seconds:.2f} s "
        f"({rate:,.0f} messages/s)"
    )


def _print_line(sentence: str) -> None:
    sys.stderr.write(f"pregao: {sentence}\n")
