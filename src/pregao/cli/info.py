"""``pregao info``: survey of captures of either feed, as tables or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.cli.console import console, print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao info day.pcap",
        "pregao info feed-a.pcap.zst feed-b.pcap.zst",
        "pregao info folder-with-captures/ --json | jq .flows",
        "Streams are detected by their messages. Snapshot and definition streams repeat in loops, "
        "each with its own sequence version; heartbeats have no sequence number.",
    )
)

_MAX_SEQUENCES = 8


def info(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Captures (pcap or pcapng, plain, gzip or zstd), folders of captures, or - for "
            "standard input. FIX/FAST captures and raw dumps are detected.",
        ),
    ],
    as_json: options.Json = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Decode all messages with this SBE schema or FAST template file.",
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT=STREAM",
            help="Stream of a destination, e.g. 233.252.14.1:30001=incremental.",
        ),
    ] = None,
) -> None:
    """Survey captures: streams, versions, gaps, rates, rejects, EntryPoint sessions."""
    import json

    from pregao.api.reading.legacy import are_legacy
    from pregao.api.reading.report import surveyed
    from pregao.cli import option_values
    from pregao.cli.console import ReadingProgress
    from pregao.schemas.registry import Registry

    if are_legacy(files, schema):
        from pregao.api.reading.legacy import legacy_report

        report = legacy_report(files, schema)
        if as_json:
            typer.echo(json.dumps(report, indent=2))
        else:
            show_legacy(report)
        return
    registry = Registry.from_environment([] if schema is None else [schema])
    with ReadingProgress("reading") as progress:
        survey = surveyed(files, registry, option_values.streams(stream), progress)
    if as_json:
        typer.echo(json.dumps(survey, indent=2))
    else:
        show(survey)


def show(found: dict[str, Any]) -> None:
    """Print the survey of captures as tables."""
    out = console()
    for line in _summary(found):
        print_line(out, line)
    if found["flows"]:
        _flows(out, found)
    if found["gaps"]:
        _gaps(out, found)
    if found["templates"]:
        _templates(out, found)
    if found["entrypoint"]["connections"]:
        _sessions(out, found["entrypoint"])
    for line in _troubles(found):
        print_line(out, line)


def _summary(found: dict[str, Any]) -> list[str]:
    files = found["files"]
    kinds = sorted({" ".join(filter(None, (f["compression"], f["format"]))) for f in files})
    links = [link["name"] or f"link type {link['number']}" for link in found["link_types"]]
    names = files[0]["name"] if len(files) == 1 else f"{len(files)} files"
    per_second = found["per_second"]
    lines = [
        f"{names}: {', '.join(kinds)}, {', '.join(sorted(set(links)))}",
        f"{found['packets']:,} packets, {found['bytes']:,} bytes; "
        f"{found['udp']['packets']:,} of them UDP with {found['udp']['bytes']:,} bytes of payload",
    ]
    if found["first"]:
        lines.append(f"{found['first']} to {found['last']} ({found['seconds']:,.3f} s)")
    if found["udp"]["packets"] or not found["entrypoint"]["connections"]:
        lines.append(
            f"{found['messages']:,} messages; per second {_rates(per_second['messages'])}; "
            f"packets per second {_rates(per_second['packets'])}"
        )
    if found["channels"]:
        lines.append(f"channels: {', '.join(map(str, found['channels']))}")
    if found["versions"]:
        lines.append(f"schema versions: {', '.join(map(_version, found['versions'][:12]))}")
    return lines


def _rates(rates: dict[str, float]) -> str:
    return f"{rates['mean']:,.0f} on average, {rates['peak']:,} at the peak (over 100 ms)"


def _version(entry: dict[str, Any]) -> str:
    text = f"{entry['version']} ({entry['messages']:,} messages"
    if entry["schema_id"] != 2:
        text = f"schema id {entry['schema_id']}: {text}"
    if entry["read_with"] is None:
        return f"{text}, refused)"
    read = "" if entry["read_with"] == entry["version"] else f", read with {entry['read_with']}"
    return f"{text}{read})"


def _flows(out: Console, found: dict[str, Any]) -> None:
    rows = []
    for flow in found["flows"]:
        rows.append(
            (
                f"{flow['address']}:{flow['port']}",
                flow["stream"],
                ", ".join(map(str, flow["channels"])),
                flow["packets"],
                flow["messages"],
                flow["heartbeats"],
                flow["per_second"]["peak"],
                _sequences(flow),
                flow["missing"],
                flow["duplicates"],
                flow["late"],
            )
        )
    columns = (
        "flow", "stream", "channel", "packets", "messages", "heartbeats", "peak/s", "sequences",
        "missing", "duplicates", "late",
    )  # fmt: skip
    numbers = "packets messages heartbeats peak/s missing duplicates late"
    print_table(out, "Flows", columns, rows, numbers=numbers)


def _sequences(flow: dict[str, Any]) -> str:
    loops = flow.get("loops")
    if loops is not None:
        seen, complete, longest = loops["loops_seen"], loops["complete"], loops["longest"]
        return f"{seen:,} loops, {complete:,} complete, up to {longest:,}"
    runs = flow["sequences"]
    shown = [f"{run['version']}: {run['first']:,}–{run['last']:,}" for run in runs]
    more = len(shown) - _MAX_SEQUENCES
    return "\n".join(shown[:_MAX_SEQUENCES] + ([f"… and {more:,} more"] if more > 0 else []))


def _sessions(out: Console, found: dict[str, Any]) -> None:
    rows = [
        (
            each["flow"],
            each["sender"] or "?",
            each["messages"],
            "\n".join(
                f"{one['session']}: {one['first']:,}–{one['last']:,}" for one in each["sessions"]
            ),
            each["skipped_bytes"],
            each["missing_bytes"],
        )
        for each in found["connections"]
    ]
    columns = ("flow", "sender", "messages", "sessions and sequence numbers", "skipped", "missing")
    print_table(out, "EntryPoint", columns, rows, numbers="messages skipped missing")
    kinds = [
        (each["message"], ", ".join(map(str, each["versions"])), each["messages"])
        for each in found["templates"]
    ]
    heads = ("message", "versions", "messages")
    print_table(out, "EntryPoint messages", heads, kinds, numbers="messages")


def _gaps(out: Console, found: dict[str, Any]) -> None:
    rows = [
        (
            gap["flow"],
            gap["channel"],
            gap["sequence_version"],
            f"{gap['first']:,}–{gap['last']:,}",
            gap["last"] - gap["first"] + 1,
            gap["seen"],
        )
        for gap in found["gaps"]
    ]
    columns = ("flow", "channel", "version", "numbers", "packets", "noticed")
    print_table(out, "First gaps", columns, rows, numbers="packets")


def _templates(out: Console, found: dict[str, Any]) -> None:
    rows = [
        (
            entry["message"] or "(unknown)",
            entry["template"],
            ", ".join(map(str, entry["versions"])),
            entry["messages"],
            f"{100 * entry['messages'] / max(1, found['messages']):.1f}%",
            f"{entry['per_second']['mean']:,.1f}",
            entry["per_second"]["peak"],
        )
        for entry in found["templates"]
    ]
    columns = ("message", "template", "versions", "messages", "share", "mean/s", "peak/s")
    print_table(out, "Messages", columns, rows, numbers="template messages share mean/s peak/s")


def _troubles(found: dict[str, Any]) -> list[str]:
    lines = []
    rejects = found["rejects"]
    total = rejects["messages"] + rejects["packets"]
    if total:
        lines.append(f"rejected: {total:,}")
        lines += [f"  {count:,} × {reason}" for reason, count in rejects["reasons"].items()]
        reject = rejects["first"][0] if rejects["first"] else None
        if reject:
            lines.append(
                f"  first: {reject['file']}: packet {reject['packet']:,} at byte "
                f"{reject['position']:,}, byte {reject['byte']} of its payload: {reject['reason']}"
            )
    else:
        lines.append("rejected: nothing")
    for entry in found["unsupported"][:10]:
        lines.append(
            f"not market data: {entry['packets']:,} packets to {entry['address']}:{entry['port']}"
        )
    other = dict(found["not_udp"]["other"])
    if found["not_udp"]["tcp"] and not found["entrypoint"]["connections"]:
        other["TCP"] = found["not_udp"]["tcp"]
    lines += [f"not UDP: {count:,} × {reason}" for reason, count in other.items()]
    if found["not_udp"]["fragments"]:
        fragments = found["not_udp"]
        lines.append(
            f"IP fragments: {fragments['fragments']:,}, of which {fragments['fragments_joined']:,} "
            "were reassembled"
        )
    if found["cut_by_snap_length"]:
        lines.append(f"truncated by the snap length: {found['cut_by_snap_length']:,} packets")
    lines += [f"malformed: {count:,} × {reason}" for reason, count in found["malformed"].items()]
    lines += [f"{entry['file']}: {entry['reason']}" for entry in found["truncated"]]
    lines += [f"{error}; the rest of that file was not read" for error in found["damaged"]]
    return lines


def show_legacy(report: dict[str, Any]) -> None:
    """Print the report as tables."""
    out = console()
    print_line(
        out,
        f"Legacy feed (UMDF FIX/FAST): {report['datagrams']:,} datagrams, "
        f"{report['messages']:,} messages.",
    )
    columns = ("flow", "stream", "messages", "entries", "lowest", "highest", "missing", "resets")
    rows = [[each[column] or "" for column in columns] for each in report["flows"]]
    numbers = "messages entries lowest highest missing resets"
    print_table(out, "Flows", columns, rows, numbers=numbers, framed=True)
    names = ("template", "message", "messages")
    rows = [[each[name] for name in names] for each in report["templates"]]
    print_table(out, "Templates", names, rows, numbers="template messages", framed=True)
    if report["chunks_missing"]:
        print_line(out, f"{report['chunks_missing']:,} messages have missing chunks.")
    for reason, count in report["rejects"].items():
        print_line(out, f"{count:,} rejected: {reason}")
    for message in report["damaged"]:
        print_line(out, message)
