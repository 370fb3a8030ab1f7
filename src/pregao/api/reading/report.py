"""Survey report of captures, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pregao.api.reading.entrypoint import EntryPointSurvey
from pregao.api.reading.inputs import CaptureInputs, Progress, ReadStatistics, numbered
from pregao.clock import format_ns
from pregao.schemas.registry import Registry
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import Destination, schema_of
from pregao.umdf.survey.rejects import SequenceRun
from pregao.umdf.survey.survey import LineAccount, Survey

_LOOPS = (Stream.SNAPSHOT, Stream.DEFINITION)
_MAX_GAPS = 20
_LINKS = {
    0: "BSD loopback",
    1: "Ethernet",
    12: "raw IP",
    14: "raw IP",
    101: "raw IP",
    108: "BSD loopback",
    113: "Linux cooked",
    228: "raw IPv4",
    229: "raw IPv6",
    276: "Linux cooked 2",
}


def surveyed(
    names: Sequence[str],
    registry: Registry,
    streams: Mapping[Destination, Stream],
    progress: Progress,
) -> dict[str, Any]:
    """Read captures once, and return the statistics of all their packets as JSON values."""
    captures = CaptureInputs(names)
    captures.check()
    survey, account = Survey(registry, streams), ReadStatistics()
    sessions = EntryPointSurvey(registry)
    for read, numbers in numbered(captures.read(account, progress), survey.lines):
        if len(read.block):
            survey.add(read.name, read.block, numbers)
        sessions.add(read)
    return report(survey, account) | {"entrypoint": sessions.report(account)}


def report(survey: Survey, account: ReadStatistics) -> dict[str, Any]:
    """Return the statistics of market data."""
    statistics = account.statistics
    return {
        "files": [
            {"name": name, "format": form, "compression": compression}
            for name, form, compression in zip(
                account.names, account.formats, account.compressions, strict=True
            )
        ],
        "link_types": [
            {"number": link, "name": _LINKS.get(link, "")} for link in sorted(account.link_types)
        ],
        "packets": statistics.packets,
        "bytes": statistics.bytes,
        **_span(survey.first_ns, survey.last_ns),
        "seconds": survey.seconds,
        "udp": {"packets": statistics.udp, "bytes": statistics.udp_bytes},
        "not_udp": {
            "tcp": statistics.tcp,
            "other": dict(statistics.other.most_common()),
            "fragments": statistics.fragments,
            "fragments_joined": statistics.fragments_joined,
        },
        "cut_by_snap_length": statistics.cut,
        "malformed": dict(statistics.malformed.most_common()),
        "truncated": [
            {"file": name, "position": tail.position, "reason": str(tail)}
            for name, tail in account.tails
        ],
        "damaged": [str(error) for error in account.damaged],
        "channels": survey.channels(),
        "messages": survey.messages,
        "per_second": {
            "messages": {"mean": _rate(survey.messages, survey), "peak": survey.message_peak},
            "packets": {"mean": _rate(survey.packets, survey), "peak": survey.packet_peak},
        },
        "versions": [
            {
                "schema_id": schema_id,
                "version": version,
                "messages": messages,
                "read_with": _read_with(survey.registry, schema_id, version),
            }
            for (schema_id, version), messages in survey.versions().items()
        ],
        "flows": [_flow(line, survey) for line in survey.line_accounts()],
        "unsupported": [
            {"address": destination.address, "port": destination.port, "packets": packets}
            for destination, packets in survey.unsupported().items()
        ],
        "gaps": [
            {
                "flow": str(survey.lines.destinations[gap.line]),
                "channel": gap.channel,
                "sequence_version": gap.sequence_version,
                "first": gap.first,
                "last": gap.last,
                "seen": format_ns(gap.time_ns),
            }
            for gap in survey.gaps(_MAX_GAPS)
        ],
        "templates": [
            {
                "template": each.template_id,
                "message": each.name or None,
                "versions": each.versions,
                "messages": each.messages,
                "per_second": {"mean": _rate(each.messages, survey), "peak": each.peak_per_second},
            }
            for each in survey.templates()
        ],
        "unknown": [
            {"template": template, "version": version, "messages": messages}
            for (template, version), messages in sorted(survey.unknown.items())
        ],
        "rejects": {
            "messages": survey.rejects.messages,
            "packets": survey.rejects.packets,
            "reasons": dict(survey.rejects.reasons.most_common()),
            "first": [
                {
                    "file": reject.name,
                    "packet": reject.number,
                    "position": reject.position,
                    "byte": reject.byte,
                    "reason": reject.reason,
                }
                for reject in survey.rejects.first
            ],
        },
    }


def _read_with(registry: Registry, schema_id: int, version: int) -> int | None:
    schema = schema_of(registry, schema_id, version)
    return None if schema is None else schema.version


def _span(first_ns: int | None, last_ns: int | None) -> dict[str, Any]:
    # A capture without times has zeros instead.
    timed = first_ns is not None and last_ns is not None and last_ns > 0
    return {
        "first": format_ns(first_ns) if timed and first_ns is not None else None,
        "last": format_ns(last_ns) if timed and last_ns is not None else None,
    }


def _rate(count: int, survey: Survey) -> float:
    return round(count / survey.seconds, 3) if survey.seconds > 0 else 0.0


def _flow(line: LineAccount, survey: Survey) -> dict[str, Any]:
    result = {
        "address": line.destination.address,
        "port": line.destination.port,
        "stream": line.stream.value,
        "channels": line.channels,
        "packets": line.packets,
        "bytes": line.bytes,
        "messages": line.messages,
        "heartbeats": line.heartbeats,
        **_span(line.first_ns, line.last_ns),
        "per_second": {"mean": _rate(line.messages, survey), "peak": line.peak_per_second},
        "missing": sum(run.missing for run in line.runs),
        "gaps": sum(run.gaps for run in line.runs),
        "duplicates": sum(run.duplicates for run in line.runs),
        "late": sum(run.late for run in line.runs),
    }
    if line.stream in _LOOPS:
        result["loops"] = {
            "loops_seen": sum(run.turns for run in line.runs),
            "complete": sum(run.whole for run in line.runs),
            "longest": max((run.last for run in line.runs), default=0),
        }
    else:
        result["sequences"] = [_sequence(run) for run in line.runs]
    return result


def _sequence(run: SequenceRun) -> dict[str, int]:
    return {
        "channel": run.channel,
        "version": run.sequence_version,
        "first": run.first,
        "last": run.last,
        "packets": run.packets,
        "missing": run.missing,
        "gaps": run.gaps,
        "duplicates": run.duplicates,
        "late": run.late,
    }
