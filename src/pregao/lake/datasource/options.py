"""Options of the capture source, parsed and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pregao.clock import SECOND, parse_ns
from pregao.errors import SchemaError, UsageError
from pregao.lake.ingest.options import TARGET_BYTES
from pregao.name_matching import did_you_mean
from pregao.safe_io.documents import DocumentError, parse_json
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.xml import template
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.streams import Stream
from pregao.units import parse_duration

MESSAGES = "messages"
"""Shape of the rows without a template: every message, its fields as JSON."""
PACKETS = "packets"
"""Shape with a row for each UDP packet."""
RANGES = "ranges"
"""Shape with a row for each range of a file, which a stream passes to an ingest."""

OPTIONS = (
    "path", "paths", "template", "schema", "version", "stream", "channel", "securityId",
    "since", "until", "columns",
    "rangeSize", "maxBytesPerBatch", "maxFilesPerBatch", "holdback", "quietPeriod",
)  # fmt: skip

_SIZE = re.compile(r"(\d{1,18})\s*([kmg]?)i?b?", re.ASCII)
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

_MAX_INT64 = (1 << 63) - 1
_MAX_DIGITS = 100

QUIET_NS = 5 * SECOND


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Checked options of a read."""

    captures: tuple[str, ...]
    shape: str
    """Name of a template as given, or one of the other shapes."""
    schema_file: str | None = None
    version: str | None = None
    streams: tuple[str, ...] | None = None
    channels: tuple[int, ...] | None = None
    security_ids: tuple[int, ...] | None = None
    from_ns: int | None = None
    """Only packets captured at this time or later."""
    to_ns: int | None = None
    """Only packets captured before this time."""
    columns: tuple[str, ...] | None = None
    range_bytes: int = TARGET_BYTES
    max_bytes: int | None = None
    max_files: int | None = None
    holdback_ns: int = 0
    """A stream holds back packets newer than this before the newest packet of all files."""
    quiet_ns: int = QUIET_NS
    """A file that did not grow for this long is considered complete."""

    def registry(self) -> Registry:
        """Return the schemas to decode with."""
        return registry_of(self.schema_file, self.version)


def parse_request(options: Mapping[str, str]) -> ReadRequest:
    """Parse the options; raise `UsageError` for an invalid one."""
    given = {key.lower(): value for key, value in options.items()}
    known = {name.lower(): name for name in OPTIONS}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, OPTIONS, 1)
            raise UsageError(
                f"The b3 source has no option {name!r}.{hint} Options are {', '.join(OPTIONS)}."
            )
    captures = tuple([given["path"]] if given.get("path") else []) + _paths(given.get("paths"))
    if not captures:
        raise UsageError("No captures given: use load('capture.pcap'), a folder, or a pattern.")
    request = ReadRequest(
        captures=captures,
        shape=given.get("template", MESSAGES).strip() or MESSAGES,
        schema_file=given.get("schema"),
        version=given.get("version"),
        streams=_streams(given.get("stream")),
        channels=_channels(given.get("channel")),
        security_ids=_securities(given.get("securityid")),
        from_ns=_moment(given.get("since"), "since"),
        to_ns=_moment(given.get("until"), "until"),
        columns=tuple(_parts(given.get("columns"))) or None,
        range_bytes=parse_size(given.get("rangesize"), "rangeSize") or TARGET_BYTES,
        max_bytes=parse_size(given.get("maxbytesperbatch"), "maxBytesPerBatch"),
        max_files=_count(given.get("maxfilesperbatch"), "maxFilesPerBatch"),
        holdback_ns=parse_duration(given.get("holdback", "0s"), "holdback"),
        quiet_ns=parse_duration(given.get("quietperiod", f"{QUIET_NS}ns"), "quietPeriod"),
    )
    if request.schema_file is not None and request.version is not None:
        raise UsageError("Give a schema file or a version of the bundled schemas, not both.")
    begin, end = request.from_ns, request.to_ns
    if begin is not None and end is not None and end <= begin:
        raise UsageError("The option until must be later than the option since.")
    return request


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _paths(text: str | None) -> tuple[str, ...]:
    """Return several paths: in JSON, as Spark passes them, or separated by commas."""
    if text is None:
        return ()
    if text.lstrip().startswith("["):
        try:
            return tuple(str(part) for part in parse_json(text))
        except DocumentError:
            raise UsageError(f"The option paths must be a list of paths, was {text!r}.") from None
    return tuple(_parts(text))


def _streams(text: str | None) -> tuple[str, ...] | None:
    known = [stream.value for stream in Stream]
    found = [part.lower() for part in _parts(text)]
    for part in found:
        if part not in known:
            raise UsageError(f"The option stream must be one of {', '.join(known)}, was {part!r}.")
    return tuple(found) or None


def _is_whole(text: str, largest: int) -> bool:
    """Whether a text is an integer from 0 to ``largest``; Python refuses very long ones."""
    digits = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return digits and int(text) <= largest


def _channels(text: str | None) -> tuple[int, ...] | None:
    found = _parts(text)
    for part in found:
        if not _is_whole(part, 255):
            raise UsageError(f"The option channel must be a number from 0 to 255, was {part!r}.")
    return tuple(int(part) for part in found) or None


def _securities(text: str | None) -> tuple[int, ...] | None:
    found = _parts(text)
    for part in found:
        if not _is_whole(part, (1 << 64) - 1):
            raise UsageError(
                f"The option securityId must be a number such as 100000010014, was {part!r}."
            )
    return tuple(int(part) for part in found) or None


def _moment(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return parse_ns(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"The option {option} must be a time such as 2026-05-21T13:00:00.5 (UTC unless it has "
            f"a zone) or nanoseconds since 1970, was {text!r}."
        ) from None


def _count(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    if not _is_whole(text.strip(), _MAX_INT64) or int(text) == 0:
        raise UsageError(f"The option {option} must be a number of at least 1, was {text!r}.")
    return int(text)


def parse_size(text: str | None, option: str) -> int | None:
    """Return a size such as ``64m`` in bytes."""
    if text is None:
        return None
    matched = _SIZE.fullmatch(text.strip().lower())
    size = int(matched.group(1)) * _SIZES[matched.group(2)] if matched else 0
    if not 0 < size <= _MAX_INT64:
        raise UsageError(f"{option} must be a size such as 64m or 1g, was {text!r}.")
    return size


@lru_cache(maxsize=8)
def registry_of(schema_file: str | None, version: str | None) -> Registry:
    """Return the bundled schemas, or the one that the user named for every message."""
    if schema_file is not None:
        return Registry.from_environment([schema_file])
    if version is not None:
        return Registry(named=[Registry.bundled().get(UMDF_SCHEMA_ID, version)])
    return Registry.bundled()


def templates_of(name: str, registry: Registry) -> list[tuple[Schema, MessageTemplate]]:
    """Return the templates of a name or number, in every version of the schemas."""
    schemas = registry.named() or [
        registry.get(UMDF_SCHEMA_ID, version) for version in registry.versions(UMDF_SCHEMA_ID)
    ]
    found = []
    for schema in schemas:
        try:
            found.append((schema, template(schema, name)))
        except SchemaError:
            continue
    if not found:
        names = [m.name for schema in schemas for m in schema.messages if m.id]
        hint = did_you_mean(name, names, 1, 0.4)
        raise UsageError(
            f"There is no template {name!r}.{hint} Omit the option to read every message, "
            f"or use {PACKETS!r} for packets."
        )
    return found
