"""Parse option values; an invalid value raises a `UsageError` that says what is allowed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, date, timedelta, timezone
from typing import TYPE_CHECKING

from pregao.cli.config import configuration
from pregao.clock import format_ns, parse_ns
from pregao.errors import UsageError
from pregao.lake.execution.runner import EngineName
from pregao.units import parse_day, parse_zone

_ANOTHER_ZONE = timezone(timedelta(hours=1))
LATEST_NS = (1 << 63) - 1
"""Latest time that a column of nanoseconds can represent."""

if TYPE_CHECKING:
    from pregao.schemas.registry import Registry
    from pregao.umdf.streams import Stream
    from pregao.umdf.survey.lines import Destination


def parts(values: Iterable[str] | None) -> list[str]:
    """Split comma-separated values of a repeatable option."""
    found = [part.strip() for value in values or () for part in value.split(",")]
    return [part for part in found if part]


def numbers(values: Iterable[str] | None, option: str, limit: int) -> frozenset[int] | None:
    """Parse integers from 0 to `limit`; return None if none were given."""
    found = []
    for part in parts(values):
        digits = part.isascii() and part.isdigit() and len(part) <= len(str(limit))
        if not digits or int(part) > limit:
            raise UsageError(f"{option} must be an integer from 0 to {limit}, was {_short(part)}.")
        found.append(int(part))
    return frozenset(found) or None


def moment(text: str | None, option: str, tz: str | None = None) -> int | None:
    """Parse a time, ISO 8601 or nanoseconds since 1970, into nanoseconds since 1970.

    A time without a zone is read in ``tz``, else in the configured zone, else in UTC, and the
    resulting UTC time is printed to standard error.
    """
    if text is None:
        return None
    zone_name = tz or configuration().tz or "UTC"
    zone = UTC if zone_name == "UTC" else parse_zone(zone_name, "--tz")
    try:
        when = parse_ns(text, zone)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} must be a time such as 2026-05-21T13:00:00.5 (UTC unless it or --tz names a "
            f"zone) or nanoseconds since 1970, was {_short(text)}."
        ) from None
    if not 0 <= when <= LATEST_NS:
        raise UsageError(
            f"{option} must be a time from 1970 to 2262 (nanoseconds in 63 bits), "
            f"was {_short(text)}."
        )
    if parse_ns(text) != parse_ns(text, _ANOTHER_ZONE):  # it has no offset
        sys.stderr.write(f"pregao: {option} {text} in {zone_name} is {format_ns(when)}\n")
    return when


def _short(text: str) -> str:
    """Quote user input, truncated to 60 characters."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


def check_engine(engine: EngineName | None, master: str | None, conf: list[str] | None) -> None:
    """Raise `UsageError` if options of Spark are given with another engine."""
    if engine is EngineName.LOCAL and (master is not None or conf):
        # Their values may be secret, so they are not quoted.
        option = "--conf" if master is None else "--master"
        raise UsageError(f"{option} is for Spark: omit it with --engine local, or omit --engine.")


def streams(values: Iterable[str] | None) -> dict[Destination, Stream]:
    """Parse the streams of destinations: ``233.252.14.1:30001=incremental``."""
    from pregao.umdf.streams import Stream
    from pregao.umdf.survey.lines import Destination

    found: dict[Destination, Stream] = {}
    for part in parts(values):
        where, equals, what = part.partition("=")
        address, colon, port = where.rpartition(":")
        names = [stream.value for stream in Stream]
        if not (equals and colon and address and _is_port(port) and what in names):
            raise UsageError(
                "--stream must be ADDRESS:PORT=STREAM, such as 233.252.14.1:30001=incremental, "
                f"where STREAM is one of {', '.join(names)}; was {part!r}."
            )
        found[Destination(address.strip("[]"), int(port))] = Stream(what)
    return found


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16


def days(values: Iterable[str] | None) -> list[date]:
    """Parse dates, comma-separated or from a repeated option."""
    found = []
    for part in parts(values):
        found.append(parse_day(part, "--date"))
    return found


def feeds(values: Iterable[str] | None) -> list[tuple[str, str]]:
    """Parse the feeds of destinations: ``233.252.14.1:30001=B``."""
    found = []
    for value in values or ():
        destination, equals, name = value.partition("=")
        if not equals or ":" not in destination or not re.fullmatch(r"[A-Z]{1,2}", name):
            raise UsageError(f"--feed must be ADDRESS:PORT=A (or B, C, …), was {value!r}.")
        found.append((destination, name))
    return found


def template_ids(
    values: Iterable[str] | None, registry: Registry
) -> frozenset[tuple[int, int]] | None:
    """Parse templates, given by name (with or without the ID) or template ID."""
    from pregao.api.reading.selection import named_templates

    return named_templates(wanted, registry) if (wanted := parts(values)) else None
