"""``pregao replay``: send captures again, with the pace that they were captured."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.live import ReplayCounts, Told
    from pregao.net import Address
    from pregao.umdf.survey import Destination

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao replay day --to 239.1.1.1:31000",
        "pregao replay A.pcap B.pcap --to 239.1.1.1:31000 --speed 10x",
        "pregao replay day --interface eth0 --ttl 1",
        "Unless --interface, --ttl or --allow-remote say otherwise, nothing leaves this machine.",
    )
)


def replay(
    files: Annotated[list[str], typer.Argument(help="Captures, or folders of them.")],
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Where the first line goes; the others go to the next groups and ports. "
            "FROM=ADDRESS:PORT says it of one line. By default all go where they went.",
        ),
    ] = None,
    speed: Annotated[str, typer.Option(help="1x, 10x, 0.5x or max.")] = "1x",
    interface: Annotated[str, typer.Option(help="Where to send: its name or address.")] = "lo",
    ttl: Annotated[int, typer.Option(min=0, max=255, help="0 stays on this machine.")] = 0,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote",
            help="Allow targets that are neither multicast groups nor loopback.",
        ),
    ] = False,
    current_times: Annotated[
        bool,
        typer.Option("--current-times", help="Let packets say that they are sent now."),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Send the UDP packets of captures again, merged by time, each line to its own target."""
    from pregao.api.input_captures import Captures
    from pregao.live import Replayer, parse_speed
    from pregao.net import find_interface

    pace = parse_speed(speed)
    captures = Captures(files)
    if "-" in captures.names:
        raise UsageError("A replay reads its captures twice: name files, not standard input.")
    captures.check()
    targets = _targets(captures.names, to)
    replayer = Replayer(
        captures.names,
        targets,
        speed=pace,
        interface=find_interface(interface),
        ttl=ttl,
        current_times=current_times,
        allow_remote=allow_remote,
    )
    if quiet:
        replayer.run()
        return
    from pregao.cli.terminal import console as shown_on
    from pregao.cli.terminal import print_table, say

    console = shown_on(sys.stderr)
    if targets:
        rows = [(str(each), str(target)) for each, target in sorted(targets.items())]
        print_table(console, "", ("captured to", "sent to"), rows)
    with ExitStack() as shown:
        counts = replayer.run(_bar(console, shown) if console.is_terminal else None)
    say(console, told(counts))


def told(counts: ReplayCounts) -> str:
    """What was sent, in a line."""
    words = f"{counts.packets:,} packets sent, {counts.bytes:,} bytes"
    if counts.unsent:
        words += f"; {counts.unsent:,} to other destinations were not"
    if counts.late_ns > 50_000_000:
        words += f"; up to {counts.late_ns / 1e9:.1f} s late: this machine cannot go so fast"
    return words + "."


def _targets(names: list[str], to: list[str] | None) -> dict[Destination, Address] | None:
    """Where each line goes; None for where it went."""
    from pregao.live import destinations_of, targets_from
    from pregao.net import parse_address
    from pregao.umdf.survey import Destination

    if not to:
        return None
    chosen = [each for each in to if "=" in each]
    first = [each for each in to if "=" not in each]
    if len(first) > 1:
        raise UsageError(
            "--to takes one ADDRESS:PORT for all lines; FROM=ADDRESS:PORT is for one, and may be "
            "given several times."
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
            raise UsageError(f"--to: no packet was captured to {line}; there are {known}.")
        targets[line] = parse_address(target, "--to")
    return targets


def _bar(console: Console, shown: ExitStack) -> Told:
    """A line that tells how far it is."""
    from pregao.clock import format_ns

    status = shown.enter_context(console.status("sending …"))

    def progress(counts: ReplayCounts) -> None:
        status.update(f"{format_ns(counts.capture_ns)[:23]}  {counts.packets:,} packets")

    return progress
