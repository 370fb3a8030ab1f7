"""``pregao decode``: every message of a capture as text, or in files for further work."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options

if TYPE_CHECKING:
    from pregao.cli.decode_pipeline import DecodeAccount

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao decode day.pcap | less",
        "pregao decode day.pcap --template Trade_53 --symbol PETR4 -o trades.csv",
        "pregao decode folder-with-captures/ -o tables/ --format parquet",
        "pregao decode archive.pcap -t IncrementalRefresh -o messages.jsonl",
        'pregao decode --hex "37 00 01 00 b1 68 de 3a …"',
        "Lists may be given with commas or by repeating the option. Times are ISO 8601 (UTC unless "
        "they name a zone) or nanoseconds since 1970.",
        "The exit code is 0 if everything could be decoded, 1 if something was rejected, 2 if the "
        "command could not do its work. A capture that ends early (one that is still being "
        "written) is decoded up to its last whole packet, and that is told; it is no failure.",
    )
)


def decode(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE…",
            help="Captures (pcap or pcapng, plain, gzip or zstd), folders of them, or - for "
            "standard input. Those of the older feed (UMDF FIX/FAST), and raw dumps of it, are "
            "told by their content.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A .jsonl, .csv, .parquet or .arrow file, or a folder (one file per template). "
            "Without it, text goes to standard output.",
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="parquet (default of a folder), csv, arrow, jsonl or text.",
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template", "-t", metavar="TEMPLATE", help="Only these templates, by name or number."
        ),
    ] = None,
    security_id: Annotated[
        list[str] | None,
        typer.Option(metavar="NUMBER", help="Only messages about these instruments."),
    ] = None,
    symbol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SYMBOL", help="Only these symbols, as definitions in the input tell them."
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
        typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="Stop after so many messages."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read all messages with this SBE schema file, or FAST template file.",
        ),
    ] = None,
    hex_: Annotated[
        str | None,
        typer.Option(
            "--hex",
            metavar="DIGITS",
            help="A packet in hexadecimal, or - to paste it on standard input.",
        ),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT=STREAM",
            help="What a destination carries, such as 233.252.14.1:30001=incremental.",
        ),
    ] = None,
    safe_csv: options.SafeCsv = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace existing files.")] = False,
) -> None:
    """Decode every message of market-data captures, in packet order."""
    from pregao.cli import option_values
    from pregao.cli.decode_output import ReaderGoneError
    from pregao.cli.decode_request import DecodeRequest, decode_captures, decode_packet
    from pregao.errors import UsageError
    from pregao.schemas import Registry

    if files and hex_ is None:
        from pregao.api.legacy_captures import are_legacy

        if are_legacy(files, schema):
            from pregao.cli.decode_legacy import LegacyRequest, decode_legacy

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
            except ReaderGoneError:
                raise typer.Exit(0) from None
            raise typer.Exit(1 if rejected else 0)
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
                raise UsageError("--hex decodes one packet: name either it or captures.")
            account = decode_packet(request, sys.stdin.read() if hex_ == "-" else hex_)
        elif files:
            account = decode_captures(request, files)
        else:
            raise UsageError("Name a capture to decode (or - for standard input, or --hex).")
    except ReaderGoneError:
        raise typer.Exit(0) from None
    tell(account, time.perf_counter() - started)
    raise typer.Exit(1 if account.rejected else 0)


def tell(account: DecodeAccount, seconds: float) -> None:
    """Say on standard error what was done, skipped and rejected."""
    for name, tail in account.reading.tails:
        say(f"{name}: {tail}; what is whole before it was decoded")
    for (template_id, version), count in sorted(account.unknown.items()):
        say(
            f"{count:,} messages of unknown template {template_id} (version {version}) were skipped"
        )
    for name, count in sorted(account.withheld.items()):
        say(f"{count:,} values of {name} are too large for a column and null there")
    statistics = account.reading.statistics
    if statistics.cut:
        say(f"{statistics.cut:,} packets were cut by the snap length and could not be decoded")
    if account.reading.fragments:
        say(f"{account.reading.fragments:,} IP fragments never became whole datagrams")
    for reason, count in statistics.malformed.most_common():
        say(f"{count:,} malformed packets: {reason}")
    for error in account.reading.damaged:
        say(f"{error}; the rest of that file was not read")
    for place in account.rejects.first:
        say(f"rejected: {place}")
    more = account.rejects.total - len(account.rejects.first)
    if more > 0:
        say(f"… and {more:,} more, by reason:")
        for reason, count in account.rejects.reasons.most_common(10):
            say(f"  {count:,} × {reason}")
    rate = account.messages / seconds if seconds > 0 else 0.0
    packets = account.packets + (statistics.tcp if account.sessions else 0)
    say(
        f"{packets:,} packets, {account.messages:,} messages, "
        f"{account.rejected:,} rejected in {seconds:.2f} s ({rate:,.0f} messages/s)"
    )


def say(sentence: str) -> None:
    """Write a line on standard error."""
    sys.stderr.write(f"pregao: {sentence}\n")
