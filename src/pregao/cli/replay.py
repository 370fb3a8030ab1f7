"""``pregao replay``: resend captures at their original pace or another speed."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.live.replayer import OnProgress, ReplayCounts
    from pregao.net.addresses import Address
    from pregao.umdf.survey.lines import Destination

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao replay day --to 239.1.1.1:31000",
        "pregao replay A.pcap B.pcap --to 239.1.1.1:31000 --speed 10x",
        "pregao replay day --interface eth0 --ttl 1",
        "Packets leave this machine only with --interface, --ttl or --allow-remote.",
    )
)


def replay(
    files: Annotated[list[str], typer.Argument(help="Captures or folders of captures.")],
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Target of the first line; further lines use the next group and port. "
            "FROM=ADDRESS:PORT sets the target of one line (default: the captured destinations).",
        ),
    ] = None,
    speed: Annotated[str, typer.Option(help="Speed: 1x, 10x, 0.5x or max.")] = "1x",
    interface: Annotated[str, typer.Option(help="Network interface, by name or address.")] = "lo",
    ttl: Annotated[
        int, typer.Option(min=0, max=255, help="Multicast TTL; 0 stays on this machine.")
    ] = 0,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Allow targets that are neither multicast groups nor loopback.",
        ),
    ] = False,
    rewrite_times: Annotated[
        bool,
        typer.Option("--rewrite-times", help="Rewrite sending times to now."),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Resend the UDP packets of captures, merged by time, each line to its own target."""
    from pregao.api.reading.inputs import CaptureInputs
    from pregao.live.replayer import Replayer, parse_speed
    from pregao.net.addresses import find_interface

    pace = parse_speed(speed)
    captures = CaptureInputs(files)
    if "-" in captures.names:
        raise UsageError(
            "`pregao replay` reads captures twice, so not from standard input (-): give files."
        )
    captures.check()
    targets = _targets(captures.names, to)
    replayer = Replayer(
        captures.names,
        targets,
        speed=pace,
        interface=find_interface(interface),
        ttl=ttl,
        rewrite_times=rewrite_times,
        allow_remote=allow_remote,
    )
    if quiet:
        replayer.run()
        return
    from pregao.cli.console import console as shown_on
    from pregao.cli.console import print_line, print_table

    console = shown_on(sys.stderr)
    if targets:
        rows = [(str(each), str(target)) for each, target in sorted(targets.items())]
        print_table(console, "", ("captured to", "sent to"), rows)
    with ExitStack() as shown:
        counts = replayer.run(_bar(console, shown) if console.is_terminal else None)
    print_line(console, summary_line(counts))


def summary_line(counts: ReplayCounts) -> str:
    """Summarize the packets sent in one line."""
    text = f"{counts.packets:,} packets sent, {counts.bytes:,} bytes"
    if counts.unsent:
        text += f"; {counts.unsent:,} to other destinations not sent"
    if counts.late_ns > 50_000_000:
        text += (
            f"; up to {counts.late_ns / 1e9:.1f} s late: this machine cannot keep up with --speed"
        )
    return text + "."


def _targets(names: list[str], to: list[str] | None) -> dict[Destination, Address] | None:
    """Return the target of each line; None to use the captured destinations."""
    from pregao.live.replayer import destinations_of, targets_from
    from pregao.net.addresses import parse_address
    from pregao.umdf.survey.lines import Destination

    if not to:
        return None
    chosen = [each for each in to if "=" in each]
    first = [each for each in to if "=" not in each]
    if len(first) > 1:
        raise UsageError(
            f"--to accepts one ADDRESS:PORT, was {len(first)}; use FROM=ADDRESS:PORT, which is "
            "repeatable, for single lines."
        )
    found = destinations_of(names)
    targets: dict[Destination, Address] = {}
    if first:
        targets = targets_from(parse_address(first[0], "--to"), found)
    for each in chosen:
        source, _, target = each.partition("=")
        line = Destination(*parse_address(source, "--to"))
        if line not in found:
            known = ", ".join(map(str, sorted(found))) or "nothing"
            raise UsageError(
                f"--to: no packet was captured to {line}; captured destinations: {known}."
            )
        targets[line] = parse_address(target, "--to")
    return targets


def _bar(console: Console, shown: ExitStack) -> OnProgress:
    """Return a progress callback that updates a status line."""
    from pregao.clock import format_ns

    status = shown.enter_context(console.status("sending …"))

    def progress(counts: ReplayCounts) -> None:
        status.update(f"{format_ns(counts.capture_ns)[:23]}  {counts.packets:,} packets")

    return progress
