"""``pregao info``: survey of captures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pregao.cli import options

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

    from pregao.api.capture_report import surveyed
    from pregao.api.legacy_captures import are_legacy
    from pregao.cli import option_values
    from pregao.cli.info_tables import show
    from pregao.cli.progress import ReadingProgress
    from pregao.schemas.registry import Registry

    if are_legacy(files, schema):
        from pregao.api.legacy_report import legacy_report
        from pregao.cli.info_legacy import show_legacy

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
