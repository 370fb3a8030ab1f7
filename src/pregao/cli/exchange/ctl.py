"""``pregao exchange ctl`` and ``repair``: market operations, and damaged journals.

``ctl`` sends market operations to a running exchange. ``repair`` shows the damage in a journal and,
on request, sets it aside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pregao.cli import options
from pregao.errors import UsageError

CTL_EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao exchange ctl status",
        "pregao exchange ctl phase all CLOSE",
        "pregao exchange ctl halt PETR4",
        'pregao exchange ctl news "Trading of PETR4 is halted" --symbol PETR4',
    )
)
_PORT = 9612

ctl = typer.Typer(
    name="ctl",
    help="Operate a running exchange: phases, halts, busts, news, instruments, sessions.",
    epilog=CTL_EPILOG,
    no_args_is_help=True,
)
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="Symbol of the instrument.")]

Firm = Annotated[int, typer.Argument(metavar="FIRM", help="Firm ID.")]
Account = Annotated[int, typer.Argument(metavar="ACCOUNT", help="Account ID.")]

Catalogue = Annotated[
    Path, typer.Argument(metavar="FILE", help="Instrument catalog, TOML or JSON.")
]

REPAIR_EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao exchange repair journal",
        "pregao exchange repair journal --yes",
        "Restore a damaged file from a copy if you have one: a repair cannot recover records.",
    )
)

Port = Annotated[
    int, typer.Option("--port", min=1, max=65535, help="Control port of the exchange.")
]


# --- Requests to a running exchange ---


def _ask(port: int, **request: Any) -> dict[str, Any]:
    from pregao.exchange.host.admin.control_server import send_request

    answer = send_request(
        port, {name: value for name, value in request.items() if value is not None}
    )
    if "error" in answer:
        message = str(answer["error"])
        raise UsageError(message if message.endswith((".", "?")) else f"{message}.")
    return answer


def _done(port: int, words: str, **request: Any) -> None:
    _ask(port, **request)
    typer.echo(words)


@ctl.command(epilog="Example: pregao exchange ctl status --json")
def status(
    port: Port = _PORT,
    as_json: options.Json = False,
) -> None:
    """Show the trading day, phases, sessions and counters."""
    import json

    data = _ask(port, command="status")
    if as_json:
        typer.echo(json.dumps(data, indent=2))
        return
    from pregao.cli.console import console, print_table

    out = console()
    typer.echo(
        f"{data['trade_date']}  {data['gateway']} gateway  {data['connections']} connections  "
        f"{data['requests']:,} requests  {data['orders']:,} resting orders  start {data['starts']}"
    )
    print_table(out, "phases", ["group", "phase"], list(data["phases"].items()))
    print_table(
        out,
        "sessions",
        ["session", "firm", "connected", "next in", "next out"],
        [
            (
                str(each["session"]),
                str(each["firm"]),
                "yes" if each["connected"] else "no",
                each["next_incoming"],
                each["next_outgoing"],
            )
            for each in data["sessions"]
        ],
        numbers="next in next out",
    )
    if data["failures"]:
        typer.echo(
            f"{data['failures']:,} internal failures of requests, commands, timers, connections or "
            "the feed; the log describes each"
        )
    if data["set_aside"]:
        columns = ["file", "offset", "kind", "reason"]
        records = [[str(each[name]) for name in columns] for each in data["set_aside"]]
        print_table(out, "journal records set aside", columns, records)
    give_ups = data["give_ups"]
    if give_ups:
        names = ("id", "security_id", "trade_id", "quantity", "firm", "account", "to_firm")
        rows = [[str(each[name]) for name in names] for each in give_ups]
        print_table(out, "give-ups", [name.replace("_", " ") for name in names], rows)


@ctl.command(epilog="Example: pregao exchange ctl phase all OPEN")
def phase(
    group: Annotated[str, typer.Argument(metavar="GROUP|all", help="Group of instruments.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="PHASE",
            help="Phase: PRE_OPEN, OPEN, PAUSE, PRE_CLOSE, CLOSE or FINAL_CLOSING_CALL.",
        ),
    ],
    port: Port = _PORT,
) -> None:
    """Move a group of instruments, or all groups, to a phase."""
    _done(port, f"{group}: {name.upper()}", command="phase", group=group, phase=name)


@ctl.command(epilog="Example: pregao exchange ctl halt PETR4")
def halt(symbol: Symbol, port: Port = _PORT) -> None:
    """Halt an instrument: no orders and no trades; cancels are accepted."""
    _done(port, f"{symbol} halted", command="halt", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl auction PETR4 --duration 2m")
def auction(
    symbol: Symbol,
    duration: Annotated[
        str, typer.Option(metavar="DURATION", help="Duration of the auction, e.g. 5m.")
    ] = "5m",
    port: Port = _PORT,
) -> None:
    """Start an auction of an instrument, which ends automatically."""
    from pregao.clock import parse_span, system_clock

    end = system_clock() + parse_span(duration, "--duration")
    message = f"{symbol} is in auction for {duration}"
    _done(port, message, command="auction", symbol=symbol, until_ns=end)


@ctl.command(epilog="Example: pregao exchange ctl resume PETR4")
def resume(symbol: Symbol, port: Port = _PORT) -> None:
    """Return an instrument to the phase of its group."""
    _done(port, f"{symbol} follows its group", command="resume", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl bust PETR4 10")
def bust(
    symbol: Symbol,
    trade: Annotated[int, typer.Argument(metavar="TRADE", help="Trade ID (tradeID).")],
    port: Port = _PORT,
) -> None:
    """Bust a trade."""
    _done(port, f"trade {trade} of {symbol} busted", command="bust", symbol=symbol, trade=trade)


@ctl.command(epilog="Example: pregao exchange ctl cancel 4760")
def cancel(
    order: Annotated[int, typer.Argument(metavar="ORDER", help="Order ID (orderID).")],
    port: Port = _PORT,
) -> None:
    """Cancel an order of any session."""
    _done(port, f"order {order} canceled", command="cancel", order=order)


@ctl.command(epilog='Example: pregao exchange ctl news "Material fact" --symbol PETR4')
def news(
    headline: Annotated[str, typer.Argument(metavar="HEADLINE")],
    text: Annotated[str | None, typer.Option(help="Text (default: the headline).")] = None,
    symbol: Annotated[
        str | None, typer.Option(metavar="SYMBOL", help="Instrument that the news concerns.")
    ] = None,
    port: Port = _PORT,
) -> None:
    """Publish a news item."""
    _done(port, "published", command="news", headline=headline, text=text, symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl band PETR4 --low 30 --high 42")
def band(
    symbol: Symbol,
    low: Annotated[str | None, typer.Option(help="Lowest accepted price.")] = None,
    high: Annotated[str | None, typer.Option(help="Highest accepted price.")] = None,
    kind: Annotated[str, typer.Option(help="Type of the band.")] = "REJECTION_BAND",
    port: Port = _PORT,
) -> None:
    """Set a price band of an instrument; an omitted limit is open."""
    _done(port, "set", command="band", symbol=symbol, low=low, high=high, kind=kind.upper())


@ctl.command(epilog="Example: pregao exchange ctl protect 1 85 1000 PETR4 VALE3 --executions 50")
def protect(
    number: Annotated[int, typer.Argument(metavar="ID", help="ID of the protection.")],
    firm: Annotated[int, typer.Argument(metavar="FIRM")],
    account: Annotated[int, typer.Argument(metavar="ACCOUNT")],
    watch: Annotated[
        list[str], typer.Argument(metavar="WATCH...", help="Instruments, or assets of derivatives.")
    ],
    fills: Annotated[int | None, typer.Option(help="Maximum filled orders.")] = None,
    executions: Annotated[int | None, typer.Option(help="Maximum executions.")] = None,
    quantity: Annotated[int | None, typer.Option(help="Maximum traded quantity.")] = None,
    net: Annotated[int | None, typer.Option(help="Maximum net quantity.")] = None,
    interval: Annotated[str, typer.Option(help="Time window of the limits, e.g. 15s.")] = "15s",
    good_till: Annotated[bool, typer.Option(help="Also cancel good-till orders.")] = False,
    stops: Annotated[bool, typer.Option(help="Also cancel stop orders.")] = False,
    at_close: Annotated[bool, typer.Option(help="Also cancel at-the-close orders.")] = False,
    port: Port = _PORT,
) -> None:
    """Protect an account: at a limit, cancel its orders and reject new ones."""
    from pregao.clock import MILLISECOND, parse_span

    _done(
        port,
        f"account {account} of firm {firm} protected",
        command="protect",
        id=number,
        firm=firm,
        account=account,
        watch=watch,
        new_order_fills=fills,
        executions=executions,
        traded_quantity=quantity,
        net_quantity=net,
        interval_ms=parse_span(interval, "--interval") // MILLISECOND,
        cancels_good_till=good_till,
        cancels_stops=stops,
        cancels_at_close=at_close,
    )


@ctl.command(epilog="Example: pregao exchange ctl unprotect 1")
def unprotect(
    number: Annotated[int, typer.Argument(metavar="ID", help="ID of the protection.")],
    port: Port = _PORT,
) -> None:
    """Remove a protection of an account."""
    _done(port, f"protection {number} removed", command="unprotect", id=number)


@ctl.command(epilog="Example: pregao exchange ctl pair PETR3 PETR4")
def pair(
    symbol: Symbol,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Symbol of the other instrument.")],
    port: Port = _PORT,
) -> None:
    """Pair two instruments, so that their auctions start and end together."""
    _done(port, f"{symbol} and {other} paired", command="pair", symbol=symbol, other=other)


@ctl.command(epilog="Example: pregao exchange ctl position 85 1234 PETRF360 --long 500")
def position(
    firm: Firm,
    account: Account,
    symbol: Symbol,
    long: Annotated[int, typer.Option("--long", help="Number of options held.")] = 0,
    short: Annotated[int, typer.Option("--short", help="Number of options written.")] = 0,
    port: Port = _PORT,
) -> None:
    """Set the position of an account in an option at the start of the day."""
    request = {"firm": firm, "account": account, "symbol": symbol, "long": long, "short": short}
    _done(port, "set", command="position", **request)


@ctl.command(epilog="Example: pregao exchange ctl give-up 85 1234 127 9898")
def give_up(
    firm: Firm,
    account: Account,
    to_firm: Annotated[
        int, typer.Argument(metavar="TO_FIRM", help="Take-up firm; 0 ends the give-up.")
    ],
    to_account: Annotated[
        int, typer.Argument(metavar="TO_ACCOUNT", help="Account at that firm.")
    ] = 0,
    port: Port = _PORT,
) -> None:
    """Give up the trades of an account to another firm."""
    request = {"firm": firm, "account": account, "to_firm": to_firm, "to_account": to_account}
    _done(port, "linked" if to_firm else "no longer linked", command="give-up", **request)


@ctl.command(epilog="Example: pregao exchange ctl take-up 3 --refuse")
def take_up(
    number: Annotated[
        int, typer.Argument(metavar="ID", help="Give-up ID; `status` lists pending give-ups.")
    ],
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse the trade instead.")] = False,
    port: Port = _PORT,
) -> None:
    """Accept a given-up trade on behalf of the take-up firm."""
    _done(port, "refused" if refuse else "accepted", command="take-up", id=number, refuse=refuse)


@ctl.command(epilog="Example: pregao exchange ctl add listing.toml")
def add(file: Catalogue, port: Port = _PORT) -> None:
    """List instruments during the day."""
    _done(port, "listed", command="add", **_catalogue(file))


@ctl.command(epilog="Example: pregao exchange ctl change definitions.toml")
def change(file: Catalogue, port: Port = _PORT) -> None:
    """Replace the definitions of listed instruments."""
    _done(port, "changed", command="change", **_catalogue(file))


@ctl.command(epilog="Example: pregao exchange ctl remove PETR4")
def remove(symbol: Symbol, port: Port = _PORT) -> None:
    """Delist an instrument and cancel its orders."""
    _done(port, f"{symbol} delisted", command="remove", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl reset 51")
def reset(channel: Annotated[int, typer.Argument(metavar="CHANNEL")], port: Port = _PORT) -> None:
    """Send a ChannelReset and republish all books of a channel."""
    _done(port, f"channel {channel} republished", command="reset", channel=channel)


@ctl.command("end-day", epilog="Example: pregao exchange ctl end-day")
def end_day(port: Port = _PORT) -> None:
    """End the trading day: day orders expire."""
    _done(port, "trading day ended", command="end-day")


@ctl.command(epilog="Example: pregao exchange ctl day 2026-05-22")
def day(
    when: Annotated[str, typer.Argument(metavar="DATE", help="Trading day, e.g. 2026-05-21.")],
    week: Annotated[
        bool, typer.Option("--week", help="Start a new week: session versions may restart.")
    ] = False,
    port: Port = _PORT,
) -> None:
    """Start a trading day: sessions end, and their sequence numbers restart at 1."""
    _done(port, f"trading day {when} started", command="day", date=when, week=week)


@ctl.command(epilog="Example: pregao exchange ctl disconnect 100000001")
def disconnect(
    session: Annotated[int, typer.Argument(metavar="SESSION", help="Session ID.")],
    port: Port = _PORT,
) -> None:
    """Disconnect a session."""
    _done(port, f"session {session} disconnected", command="disconnect", session=session)


@ctl.command(epilog="Example: pregao exchange ctl failover")
def failover(port: Port = _PORT) -> None:
    """Fail the primary gateway over to the backup, which takes over its sessions."""
    _done(port, "the backup gateway is active", command="failover")


def _catalogue(file: Path) -> dict[str, str]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {file}: {error}.") from None
    form = "json" if file.suffix == ".json" else "toml"
    return {"text": text, "form": form, "source": str(file)}


# --- Repair of journals ---


def repair(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Journal directory.")],
    yes: Annotated[
        bool,
        typer.Option("-y", "--yes", help="Set the damaged bytes aside (default: change nothing)."),
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print machine-readable JSON.")
    ] = False,
) -> None:
    """Show the damage in a journal and whom it affects; with --yes, set it aside.

    Damaged bytes are kept in files next to the journal. Orders entered after the damage may get
    IDs other than those in their execution reports.
    """
    import json

    from pregao.errors import UsageError
    from pregao.exchange.host.journal.repair import examine_journal, repair_journal

    found = repair_journal(folder) if yes else examine_journal(folder)
    if json_output:
        typer.echo(json.dumps(found.as_data(), indent=1))
    else:
        for line in (*found.notes, *found.findings, *found.hopeless):
            typer.echo(line)
        for line in found.concerns:
            typer.echo(f"  {line}")
        for path in found.set_aside:
            typer.echo(f"{path}: set aside.")
    if found.hopeless:
        raise UsageError("This journal cannot be repaired without the files listed above.")
    if found.sound or yes:
        typer.echo(
            f"An exchange can start from {'' if found.sound else 'the rest of '}this journal.",
            err=True,
        )
        return
    typer.echo("Nothing was changed. Use --yes to set the damaged bytes aside.", err=True)
    raise typer.Exit(1)
