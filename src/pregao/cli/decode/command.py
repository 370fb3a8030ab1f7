"""``pregao decode``: decode captures to text or files, and print a summary of what was read."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options

if TYPE_CHECKING:
    from pregao.cli.decode.pipeline import DecodeAccount

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao decode day.pcap | less",
        "pregao decode day.pcap --template Trade_53 --symbol PETR4 -o trades.csv",
        "pregao decode folder-with-captures/ -o tables/ --format parquet",
        "pregao decode archive.pcap -t IncrementalRefresh -o messages.jsonl",
        'pregao decode --hex "37 00 01 00 b1 68 de 3a …"',
        "Lists are comma-separated or given by repeating the option. Times are ISO 8601 (UTC "
        "unless they or --tz name a zone) or nanoseconds since 1970.",
        "The exit code is 0 if everything was decoded, 1 if something was rejected, 2 if the "
        "command failed. A truncated capture (one still being written) is decoded up to its last "
        "complete packet, with a warning; the exit code stays 0.",
    )
)


def decode(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE…",
            help="Captures (pcap or pcapng, plain, gzip or zstd), folders of captures, or - for "
            "standard input. FIX/FAST captures and raw dumps are detected.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Output: a .jsonl, .csv, .parquet or .arrow file, or a folder with one file per "
            "template (default: text on standard output).",
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format: parquet (default for a folder), csv, arrow, jsonl or text.",
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template", "-t", metavar="TEMPLATE", help="Only these templates, by name or ID."
        ),
    ] = None,
    security_id: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Only messages of these instruments."),
    ] = None,
    symbol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SYMBOL", help="Only these symbols, resolved by definitions in the input."
        ),
    ] = None,
    channel: options.Channels = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only packets captured at or after this time."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only packets captured before this time.")
    ] = None,
    tz: options.Zone = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="Maximum number of messages."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Decode all messages with this SBE schema or FAST template file.",
        ),
    ] = None,
    hex_: Annotated[
        str | None,
        typer.Option(
            "--hex",
            metavar="DIGITS",
            help="Decode one packet in hexadecimal; - reads it from standard input.",
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT=STREAM",
            help="Stream of a destination, e.g. 233.252.14.1:30001=incremental.",
        ),
    ] = None,
    safe_csv: options.SafeCsv = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace existing files.")] = False,
) -> None:
    """Decode every message of market-data captures, in packet order."""
    from pregao.cli import option_values
    from pregao.cli.decode.outputs import OutputClosedError
    from pregao.errors import UsageError
    from pregao.schemas.registry import Registry

    if files and hex_ is None:
        from pregao.api.reading.legacy import are_legacy

        if are_legacy(files, schema):
            from pregao.cli.decode.legacy import LegacyRequest, decode_legacy

            try:
                rejected = decode_legacy(
                    LegacyRequest(
                        output=output,
                        format=format_,
                        templates=option_values.parts(template),
                        security_ids=option_values.numbers(
                            security_id, "--security-id", (1 << 63) - 1
                        ),
                        symbols=option_values.parts(symbol),
                        since_ns=option_values.moment(since, "--since", tz),
                        until_ns=option_values.moment(until, "--until", tz),
                        limit=limit,
                        schema=schema,
                        force=force,
                        safe_csv=safe_csv,
                    ),
                    files,
                )
            except OutputClosedError:
                raise typer.Exit(0) from None
            raise typer.Exit(1 if rejected else 0)
    from pregao.cli.decode.request import DecodeRequest, decode_captures, decode_packet

    started = time.perf_counter()
    registry = Registry.from_environment([] if schema is None else [schema])
    request = DecodeRequest(
        registry=registry,
        output=output,
        format=format_,
        templates=option_values.template_ids(template, registry),
        security_ids=option_values.numbers(security_id, "--security-id", (1 << 63) - 1),
        symbols=option_values.parts(symbol),
        channels=option_values.numbers(channel, "--channel", 255),
        since_ns=option_values.moment(since, "--since", tz),
        until_ns=option_values.moment(until, "--until", tz),
        limit=limit,
        streams=option_values.streams(stream),
        force=force,
        safe_csv=safe_csv,
    )
    try:
        if hex_ is not None:
            if files:
                raise UsageError("--hex decodes one packet: give either --hex or captures.")
            account = decode_packet(request, sys.stdin.read() if hex_ == "-" else hex_)
        elif files:
            account = decode_captures(request, files)
        else:
            raise UsageError("No capture given: pass files, - for standard input, or --hex.")
    except OutputClosedError:
        raise typer.Exit(0) from None
    print_summary(account, time.perf_counter() - started)
    raise typer.Exit(1 if account.rejected else 0)


def print_summary(account: DecodeAccount, seconds: float) -> None:
    """Print counts of decoded, skipped and rejected messages to standard error."""
    for name, tail in account.reading.tails:
        print_line(f"{name}: {tail}; all complete packets before it were decoded")
    for (template_id, version), count in sorted(account.unknown.items()):
        print_line(
            f"{count:,} messages of unknown template {template_id} (version {version}) were skipped"
        )
    for name, count in sorted(account.withheld.items()):
        print_line(f"{count:,} values of {name} do not fit the column and were replaced by null")
    statistics = account.reading.statistics
    if statistics.cut:
        print_line(f"{statistics.cut:,} packets were truncated by the snap length and not decoded")
    if account.reading.fragments:
        print_line(f"{account.reading.fragments:,} IP fragments could not be reassembled")
    for reason, count in statistics.malformed.most_common():
        print_line(f"{count:,} malformed packets: {reason}")
    for error in account.reading.damaged:
        print_line(f"{error}; the rest of that file was not read")
    for reject in account.rejects.first:
        print_line(f"rejected: {reject}")
    more = account.rejects.total - len(account.rejects.first)
    if more > 0:
        print_line(f"… and {more:,} more, by reason:")
        for reason, count in account.rejects.reasons.most_common(10):
            print_line(f"  {count:,} × {reason}")
    rate = account.messages / seconds if seconds > 0 else 0.0
    packets = account.packets + (statistics.tcp if account.sessions else 0)
    print_line(
        f"{packets:,} packets, {account.messages:,} messages, "
        f"{account.rejected:,} rejected in {seconds:.2f} s ({rate:,.0f} messages/s)"
    )


def print_line(sentence: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"pregao: {sentence}\n")
