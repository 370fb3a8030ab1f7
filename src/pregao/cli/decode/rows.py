"""Write decoded messages as lines one by one, as `text` does, if Arrow is not installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any
from unicodedata import category

from pregao.api.reading.keys import key_form
from pregao.cli.console import plain
from pregao.sbe.model import Block
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID
from pregao.umdf.bulk_decoder import MessageBatch

Keys = Sequence[Sequence[Any]]

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_300_799
"""Seconds of the years 1 to 9999; times outside that range are written as numbers."""
MONTH_YEAR = ("year", "month", "day", "week")
"""Columns of a MaturityMonthYear record, which is written in FIX's text form."""


def shown(value: str) -> str:
    """Return a quoted string with every non-printable character escaped."""
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)


def text_rows(batch: MessageBatch, keys: Keys) -> list[str]:
    """Return a line for each message: time, key, name, and the fields that are not null."""
    form = key_form(batch.schema.id)
    location = _session if batch.schema.id == ENTRYPOINT_SCHEMA_ID else _packet
    lines = []
    for key, values in zip(zip(*keys, strict=True), batch.columns, strict=True):
        time = key[form.captured]
        head = [_time(time, "ns") if time is not None else "-", *location(key), batch.message.name]
        lines.append(" ".join([*head, *_named(batch.message, values)]) + "\n")
    return lines


def json_rows(batch: MessageBatch, keys: Keys) -> list[str]:
    """Return a JSON object for each message: template, key, and the fields by schema name."""
    message = batch.message
    head = {"message": message.name, "template": message.id, "version": batch.version}
    names = key_form(batch.schema.id).names
    lines = []
    for key, values in zip(zip(*keys, strict=True), batch.columns, strict=True):
        line = head | dict(zip(names, key, strict=True)) | {"fields": _object(message, values)}
        lines.append(plain(json.dumps(line, ensure_ascii=False, separators=(",", ":"))) + "\n")
    return lines


def _packet(key: Sequence[Any]) -> list[str]:
    channel, stream, version, number, index, *_ = key
    return [str(channel), stream, f"{version}:{'-' if number is None else number}.{index}"]


def _session(key: Sequence[Any]) -> list[str]:
    sender, flow, number, *_ = key
    return [sender or "-", flow, "-" if number is None else str(number)]


def _object(block: Block, values: Mapping[str, Any]) -> dict[str, Any]:
    found = {each.name: _json_value(each, values[each.name]) for each in readings(block)}
    for group in block.groups:
        found[group.name] = [_object(group, entry) for entry in values[group.name]]
    for data in block.data:
        value = values[data.name]
        found[data.name] = value.hex() if isinstance(value, bytes) else value
    return found


def _json_value(reading: ValueSpec, value: Any) -> Any:
    if value is None:
        return None
    match reading.kind:
        case ValueKind.RECORD:
            return {each.name: _json_value(each, value[each.name]) for each in reading.members}
        case ValueKind.DECIMAL:
            return format(value, "f")
        case ValueKind.DATE:
            return value.isoformat() if isinstance(value, date) else value
        case ValueKind.BYTES:
            return value.hex()
        case _:
            return value


def _named(block: Block, values: Mapping[str, Any]) -> list[str]:
    """Return ``name=value`` of each field that is not null; empty groups are omitted."""
    parts = []
    for reading in readings(block):
        value = values[reading.name]
        if value is not None:
            parts.append(f"{reading.name}={_text_value(reading, value)}")
    for group in block.groups:
        if entries := values[group.name]:
            inner = " ".join(f"{{{' '.join(_named(group, entry))}}}" for entry in entries)
            parts.append(f"{group.name}=[{inner}]")
    for data in block.data:
        value = values[data.name]
        if value is not None:
            parts.append(f"{data.name}={_words(value)}")
    return parts


def _record(reading: ValueSpec, value: Mapping[str, Any]) -> str:
    members = reading.members
    if tuple(each.column for each in members) == MONTH_YEAR:
        year, month, day, week = (value[each.name] for each in members)
        text = f"{year or 0:04}{month or 0:02}{'' if day is None else f'{day:02}'}"
        return text if week is None else f"{text}w{week}"
    inner = ((each, value[each.name]) for each in members)
    return f"{{{' '.join(f'{m.name}={_text_value(m, v)}' for m, v in inner if v is not None)}}}"


def _set(reading: ValueSpec, value: int) -> str:
    assert reading.set is not None
    return "|".join(reading.set.names(value)) or "0"


_WRITERS: dict[ValueKind, Callable[[ValueSpec, Any], str]] = {
    ValueKind.RECORD: _record,
    ValueKind.SET: _set,
    ValueKind.DECIMAL: lambda _, value: format(value, "f"),
    ValueKind.TIME: lambda reading, value: (
        f"{value}{reading.unit}" if reading.duration else _time(value, reading.unit)
    ),
    ValueKind.NUMBERS: lambda _, value: f"[{' '.join(map(str, value))}]",
    ValueKind.TEXT: lambda _, value: _words(value),
    ValueKind.BYTES: lambda _, value: _words(value),
}


def _text_value(reading: ValueSpec, value: Any) -> str:
    writer = _WRITERS.get(reading.kind)
    return str(value) if writer is None else writer(reading, value)


def _time(value: int, unit: str) -> str:
    """Return a time with the digits of its unit; outside years 1 to 9999, the number."""
    factor = PER_SECOND[unit]
    seconds, rest = divmod(value, factor)
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        return str(value)
    text = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
    return f"{text}Z" if factor == 1 else f"{text}.{rest:0{len(str(factor)) - 1}}Z"


def _words(value: str | bytes) -> str:
    """Return text, quoted if it contains ambiguous characters; bytes as hexadecimal digits."""
    if isinstance(value, bytes):
        value = value.hex()
    plain = value and all(category(c)[0] in "LNPS" and c not in '"{}[]=\\' for c in value)
    return value if plain else shown(value)
