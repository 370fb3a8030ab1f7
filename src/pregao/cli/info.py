"""``pregao info``: what captures hold, before anything is decoded into files."""

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
        "Streams are recognised by the messages on them. Snapshot and definition streams repeat "
        "in loops, each with a sequence version of its own; heartbeats have no number.",
    )
)


def info(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Captures (pcap or pcapng, plain, gzip or zstd), folders of them, or - for "
            "standard input. Those of the older feed (UMDF FIX/FAST), and raw dumps of it, are "
            "told by their content.",
        ),
    ],
    as_json: options.Json = False,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read all messages with this SBE schema file, or FAST template file.",
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT=STREAM",
            help="What a destination carries, such as 233.252.14.1:30001=incremental.",
        ),
    ] = None,
) -> None:
    """Tell what captures hold: streams, versions, gaps, rates, rejects, sessions of EntryPoint."""
    import json

    from pregao.api.capture_report import surveyed
    from pregao.api.legacy_captures import are_legacy
    from pregao.cli import option_values
    from pregao.cli.info_tables import show
    from pregao.cli.progress import ReadingProgress
    from pregao.schemas import Registry

    if are_legacy(files, schema):
        from pregao.api.legacy_report import legacy_report
        from pregao.cli.info_legacy import show_legacy

        told = legacy_report(files, schema)
        if as_json:
            typer.echo(json.dumps(told, indent=2))
        else:
            show_legacy(told)
        return
    registry = Registry.from_environment([] if schema is None else [schema])
    with ReadingProgress("reading") as progress:
        found = surveyed(files, registry, option_values.streams(stream), progress)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show(found)
