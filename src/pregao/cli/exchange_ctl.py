"""``pregao exchange ctl``: what market operations tell a running exchange."""

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

Port = Annotated[
    int, typer.Option("--port", min=1, max=65535, help="The control port of the exchange.")
]
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="The instrument.")]


def _ask(port: int, **request: Any) -> dict[str, Any]:
    from pregao.exchange.host import ask

    answer = ask(port, {name: value for name, value in request.items() if value is not None})
    if "error" in answer:
        words = str(answer["error"])
        raise UsageError(words if words.endswith((".", "?")) else f"{words}.")
    return answer


def _done(port: int, words: str, **request: Any) -> None:
    _ask(port, **request)
    typer.echo(words)


@ctl.command(epilog="Example: pregao exchange ctl status --json")
def status(
    port: Port = _PORT,
    as_json: options.Json = False,
) -> None:
    """Show the day, the phases, the sessions and what was done."""
    import json

    told = _ask(port, do="status")
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    from pregao.cli.terminal import console, print_table

    out = console()
    typer.echo(
        f"{told['trade_date']}  {told['gateway']} gateway  {told['connections']} connections  "
        f"{told['requests']:,} requests  {told['orders']:,} standing orders  start {told['starts']}"
    )
    print_table(out, "phases", ["group", "phase"], list(told["phases"].items()))
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
            for each in told["sessions"]
        ],
        numbers="next in next out",
    )
    if told["failures"]:
        typer.echo(f"{told['failures']:,} requests failed and were undone; the log has their bytes")
    if told["set_aside"]:
        columns = ["file", "offset", "kind", "reason"]
        aside = [[str(each[name]) for name in columns] for each in told["set_aside"]]
        print_table(out, "records of the journal set aside", columns, aside)
    waiting = told["give_ups"]
    if waiting:
        names = ("id", "security_id", "trade_id", "quantity", "firm", "account", "to_firm")
        rows = [[str(each[name]) for name in names] for each in waiting]
        print_table(out, "give-ups", [name.replace("_", " ") for name in names], rows)


@ctl.command(epilog="Example: pregao exchange ctl phase all OPEN")
def phase(
    group: Annotated[str, typer.Argument(metavar="GROUP|all", help="The group of instruments.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="PHASE",
            help="PRE_OPEN, OPEN, PAUSE, PRE_CLOSE, CLOSE or FINAL_CLOSING_CALL.",
        ),
    ],
    port: Port = _PORT,
) -> None:
    """Move a group of instruments, or all, to a phase."""
    _done(port, f"{group}: {name.upper()}", do="phase", group=group, phase=name)


@ctl.command(epilog="Example: pregao exchange ctl halt PETR4")
def halt(symbol: Symbol, port: Port = _PORT) -> None:
    """Halt an instrument: no orders, no trades; cancels are taken."""
    _done(port, f"{symbol} is halted", do="halt", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl auction PETR4 --for 2m")
def auction(
    symbol: Symbol,
    span: Annotated[
        str, typer.Option("--for", metavar="SPAN", help="How long, such as 5m.")
    ] = "5m",
    port: Port = _PORT,
) -> None:
    """Put an instrument into an auction that ends by itself."""
    from pregao.clock import parse_span, system_clock

    end = system_clock() + parse_span(span, "--for")
    _done(port, f"{symbol} is in auction for {span}", do="auction", symbol=symbol, until_ns=end)


@ctl.command(epilog="Example: pregao exchange ctl resume PETR4")
def resume(symbol: Symbol, port: Port = _PORT) -> None:
    """Let an instrument follow its group again."""
    _done(port, f"{symbol} follows its group", do="resume", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl bust PETR4 10")
def bust(
    symbol: Symbol,
    trade: Annotated[int, typer.Argument(metavar="TRADE", help="Its number (tradeID).")],
    port: Port = _PORT,
) -> None:
    """Cancel a trade."""
    _done(port, f"trade {trade} of {symbol} is cancelled", do="bust", symbol=symbol, trade=trade)


@ctl.command(epilog="Example: pregao exchange ctl cancel 4760")
def cancel(
    order: Annotated[int, typer.Argument(metavar="ORDER", help="Its number (orderID).")],
    port: Port = _PORT,
) -> None:
    """Cancel any order."""
    _done(port, f"order {order} is cancelled", do="cancel", order=order)


@ctl.command(epilog='Example: pregao exchange ctl news "Material fact" --symbol PETR4')
def news(
    headline: Annotated[str, typer.Argument(metavar="HEADLINE")],
    text: Annotated[str | None, typer.Option(help="The text; by default the headline.")] = None,
    symbol: Annotated[
        str | None, typer.Option(metavar="SYMBOL", help="The instrument that it is about.")
    ] = None,
    port: Port = _PORT,
) -> None:
    """Publish a piece of news."""
    _done(port, "published", do="news", headline=headline, text=text, symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl band PETR4 --low 30 --high 42")
def band(
    symbol: Symbol,
    low: Annotated[str | None, typer.Option(help="The lowest price that is taken.")] = None,
    high: Annotated[str | None, typer.Option(help="The highest price that is taken.")] = None,
    kind: Annotated[str, typer.Option(help="Which band, by its name.")] = "REJECTION_BAND",
    port: Port = _PORT,
) -> None:
    """Set a price band of an instrument; a side that is not given is open."""
    _done(port, "set", do="band", symbol=symbol, low=low, high=high, kind=kind.upper())


@ctl.command(epilog="Example: pregao exchange ctl protect 1 85 1000 PETR4 VALE3 --executions 50")
def protect(
    number: Annotated[int, typer.Argument(metavar="ID", help="The number of the configuration.")],
    firm: Annotated[int, typer.Argument(metavar="FIRM")],
    account: Annotated[int, typer.Argument(metavar="ACCOUNT")],
    watch: Annotated[
        list[str], typer.Argument(metavar="WATCH...", help="Instruments, or assets of derivatives.")
    ],
    fills: Annotated[int | None, typer.Option(help="So many orders filled.")] = None,
    executions: Annotated[int | None, typer.Option(help="So many executions.")] = None,
    quantity: Annotated[int | None, typer.Option(help="So much quantity traded.")] = None,
    net: Annotated[int | None, typer.Option(help="So much more bought or sold.")] = None,
    interval: Annotated[str, typer.Option(help="Within this time.")] = "15s",
    good_till: Annotated[bool, typer.Option(help="Cancel orders that outlive the day.")] = False,
    stops: Annotated[bool, typer.Option(help="Cancel stop orders.")] = False,
    at_close: Annotated[bool, typer.Option(help="Cancel orders for the close.")] = False,
    port: Port = _PORT,
) -> None:
    """Protect an account: at a limit its orders are cancelled, and new ones refused."""
    from pregao.clock import MILLISECOND, parse_span

    _done(
        port,
        f"account {account} of firm {firm} is protected",
        do="protect",
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
    number: Annotated[int, typer.Argument(metavar="ID", help="The number of the configuration.")],
    port: Port = _PORT,
) -> None:
    """Take the protection of an account away."""
    _done(port, f"there is no protection {number} any more", do="unprotect", id=number)


@ctl.command(epilog="Example: pregao exchange ctl pair PETR3 PETR4")
def pair(
    symbol: Symbol,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The other instrument.")],
    port: Port = _PORT,
) -> None:
    """Let the auctions of two instruments begin and end together."""
    _done(port, f"{symbol} and {other} are paired", do="pair", symbol=symbol, other=other)


Firm = Annotated[int, typer.Argument(metavar="FIRM", help="The number of the firm.")]
Account = Annotated[int, typer.Argument(metavar="ACCOUNT", help="The number of the account.")]


@ctl.command(epilog="Example: pregao exchange ctl position 85 1234 PETRF360 --long 500")
def position(
    firm: Firm,
    account: Account,
    symbol: Symbol,
    long: Annotated[int, typer.Option("--long", help="How many it holds.")] = 0,
    short: Annotated[int, typer.Option("--short", help="How many it has written.")] = 0,
    port: Port = _PORT,
) -> None:
    """Let an account have a position in an option, as of the beginning of the day."""
    told = {"firm": firm, "account": account, "symbol": symbol, "long": long, "short": short}
    _done(port, "set", do="position", **told)


@ctl.command(epilog="Example: pregao exchange ctl give-up 85 1234 127 9898")
def give_up(
    firm: Firm,
    account: Account,
    to_firm: Annotated[
        int, typer.Argument(metavar="TO_FIRM", help="The firm that carries them; 0: none any more.")
    ],
    to_account: Annotated[int, typer.Argument(metavar="TO_ACCOUNT", help="Its account.")] = 0,
    port: Port = _PORT,
) -> None:
    """Let trades of an account be given up to another firm."""
    told = {"firm": firm, "account": account, "to_firm": to_firm, "to_account": to_account}
    _done(port, "linked" if to_firm else "no longer linked", do="give-up", **told)


@ctl.command(epilog="Example: pregao exchange ctl take-up 3 --refuse")
def take_up(
    number: Annotated[
        int, typer.Argument(metavar="ID", help="Its number; `status` lists those that wait.")
    ],
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it instead.")] = False,
    port: Port = _PORT,
) -> None:
    """Accept a trade that was given up, for the firm that is to carry it."""
    _done(port, "refused" if refuse else "accepted", do="take-up", id=number, refuse=refuse)


Catalogue = Annotated[
    Path, typer.Argument(metavar="FILE", help="A catalogue of instruments, TOML or JSON.")
]


@ctl.command(epilog="Example: pregao exchange ctl add listing.toml")
def add(file: Catalogue, port: Port = _PORT) -> None:
    """List instruments during the day."""
    _done(port, "listed", do="add", **_catalogue(file))


@ctl.command(epilog="Example: pregao exchange ctl change definitions.toml")
def change(file: Catalogue, port: Port = _PORT) -> None:
    """Replace the definitions of listed instruments."""
    _done(port, "changed", do="change", **_catalogue(file))


@ctl.command(epilog="Example: pregao exchange ctl remove PETR4")
def remove(symbol: Symbol, port: Port = _PORT) -> None:
    """Take an instrument off the list; its orders are cancelled."""
    _done(port, f"{symbol} is not listed any more", do="remove", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl reset 51")
def reset(channel: Annotated[int, typer.Argument(metavar="CHANNEL")], port: Port = _PORT) -> None:
    """Send all books of a channel anew, behind a ChannelReset."""
    _done(port, f"channel {channel} is sent anew", do="reset", channel=channel)


@ctl.command("end-day", epilog="Example: pregao exchange ctl end-day")
def end_day(port: Port = _PORT) -> None:
    """End the trading day: orders of the day expire."""
    _done(port, "the day is over", do="end-day")


@ctl.command(epilog="Example: pregao exchange ctl day 2026-05-22")
def day(
    when: Annotated[str, typer.Argument(metavar="DATE", help="The trading day, as 2026-05-21.")],
    week: Annotated[
        bool, typer.Option("--week", help="A week begins: session versions may start again.")
    ] = False,
    port: Port = _PORT,
) -> None:
    """Begin a trading day: sessions end, their numbers start from 1."""
    _done(port, f"it is {when}", do="day", date=when, week=week)


@ctl.command(epilog="Example: pregao exchange ctl disconnect 100000001")
def disconnect(
    session: Annotated[int, typer.Argument(metavar="SESSION", help="Its number.")],
    port: Port = _PORT,
) -> None:
    """End the connection of a session."""
    _done(port, f"session {session} is disconnected", do="disconnect", session=session)


@ctl.command(epilog="Example: pregao exchange ctl failover")
def failover(port: Port = _PORT) -> None:
    """Let the gateway fail: the backup takes its sessions over."""
    _done(port, "the backup takes sessions", do="failover")


def _catalogue(file: Path) -> dict[str, str]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}.") from None
    form = "json" if file.suffix == ".json" else "toml"
    return {"text": text, "form": form, "source": str(file)}
