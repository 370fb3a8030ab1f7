"""``pregao exchange ctl`` and ``repair``: market operations, and damaged journals.

``ctl`` sends market operations to a running exchange. ``repair`` shows the damage in a journal and,
on request, sets it aside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pregao.cli import option_values, options
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

ctl = options.App(
    name="ctl",
    help="Operate a running exchange: phases, halts, trades, prices, bands, books, sessions.",
    epilog=CTL_EPILOG,
    no_args_is_help=True,
)
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="Symbol of the instrument.")]

Price = Annotated[str, typer.Argument(metavar="PRICE", help="Price, e.g. 36.50.")]
Channel = Annotated[int, typer.Argument(metavar="CHANNEL", help="Number of the channel.")]
Buyer = Annotated[int | None, typer.Option("--buyer", help="Firm that buys.")]
Seller = Annotated[int | None, typer.Option("--seller", help="Firm that sells.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Time of the trade, e.g. 2026-05-21T15:30:00Z."),
]

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
    if data["blacklist"]:
        typer.echo(f"not in user-defined spreads: {', '.join(data['blacklist'])}")
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


@ctl.command(epilog="Example: pregao exchange ctl forbid PETR4")
def forbid(symbol: Symbol, port: Port = _PORT) -> None:
    """Make an instrument unavailable for trading, also on later days, until it is resumed."""
    _done(port, f"{symbol} is forbidden", command="forbid", symbol=symbol)


@ctl.command(epilog="Example: pregao exchange ctl auction PETR4 --duration 2m")
def auction(
    symbol: Symbol,
    duration: Annotated[
        str, typer.Option(metavar="DURATION", help="Duration of the auction, e.g. 5m.")
    ] = "5m",
    port: Port = _PORT,
) -> None:
    """Start an auction of an instrument, which ends automatically."""
    from pregao.clock import system_clock
    from pregao.units import parse_duration

    end = system_clock() + parse_duration(duration, "--duration")
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


@ctl.command(
    epilog="Example: pregao exchange ctl trade PETR4 36.50 1000 --buyer 85 --seller 127 "
    "--out-of-sequence"
)
def trade(
    symbol: Symbol,
    price: Price,
    quantity: Annotated[int, typer.Argument(metavar="QUANTITY", help="Quantity of the trade.")],
    buyer: Buyer = None,
    seller: Seller = None,
    kind: Annotated[
        str | None, typer.Option(help="Type of the trade (trdSubType), e.g. BLOCK_BOOK_TRADE.")
    ] = None,
    crossed: Annotated[bool, typer.Option("--crossed", help="Mark it as a cross.")] = False,
    out_of_sequence: Annotated[
        bool, typer.Option("--out-of-sequence", help="Do not set the last price.")
    ] = False,
    at: At = None,
    days: Annotated[int | None, typer.Option(help="Days to settlement of a forward.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Interest rate of a forward; 0.01 is one percent.")
    ] = None,
    port: Port = _PORT,
) -> None:
    """Enter a trade that was made outside the book, and print its trade ID."""
    answer = _ask(
        port,
        command="trade",
        symbol=symbol,
        price=price,
        quantity=quantity,
        buyer=buyer,
        seller=seller,
        kind=kind,
        crossed=crossed,
        out_of_sequence=out_of_sequence,
        time_ns=option_values.moment(at, "--at"),
        days=days,
        rate=rate,
    )
    typer.echo(f"trade {answer['trade']} of {quantity} {symbol} at {price} entered")


@ctl.command(
    "amend-trade", epilog="Example: pregao exchange ctl amend-trade PETR4 10 --price 36.55"
)
def amend_trade(
    symbol: Symbol,
    trade: Annotated[int, typer.Argument(metavar="TRADE", help="Trade ID (tradeID).")],
    price: Annotated[str | None, typer.Option(help="Corrected price.")] = None,
    quantity: Annotated[int | None, typer.Option(help="Corrected quantity.")] = None,
    buyer: Buyer = None,
    seller: Seller = None,
    at: At = None,
    port: Port = _PORT,
) -> None:
    """Correct a trade and publish it again under its trade ID."""
    _done(
        port,
        f"trade {trade} of {symbol} amended",
        command="amend-trade",
        symbol=symbol,
        trade=trade,
        price=price,
        quantity=quantity,
        buyer=buyer,
        seller=seller,
        time_ns=option_values.moment(at, "--at"),
    )


@ctl.command(epilog="Example: pregao exchange ctl cancel 4760")
def cancel(
    order: Annotated[int, typer.Argument(metavar="ORDER", help="Order ID (orderID).")],
    port: Port = _PORT,
) -> None:
    """Cancel an order of any session."""
    _done(port, f"order {order} canceled", command="cancel", order=order)


@ctl.command("delete-side", epilog="Example: pregao exchange ctl delete-side PETR4 BUY")
def delete_side(
    symbol: Symbol,
    side: Annotated[str, typer.Argument(metavar="BUY|SELL", help="Side of the book.")],
    port: Port = _PORT,
) -> None:
    """Cancel all orders of one side of a book, published as one MassDeleteOrders."""
    message = f"{side.upper()} orders of {symbol} canceled"
    _done(port, message, command="delete-side", symbol=symbol, side=side)


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


@ctl.command(
    epilog="Examples:\n\npregao exchange ctl band PETR4 --low 30 --high 42\n\n"
    "pregao exchange ctl band PETR4 --kind AUCTION_LIMITS --limits PERCENTAGE --low -5 --high 5 "
    "--midpoint LAST_TRADED_PRICE"
)
def band(
    symbol: Symbol,
    low: Annotated[str | None, typer.Option(help="Lowest accepted price.")] = None,
    high: Annotated[str | None, typer.Option(help="Highest accepted price.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Type of the band: HARD_LIMIT, AUCTION_LIMITS, REJECTION_BAND or STATIC_LIMITS."
        ),
    ] = "REJECTION_BAND",
    limits: Annotated[
        str,
        typer.Option(
            help="Unit of the limits: PRICE_UNIT, or PERCENTAGE of the midpoint (rejection bands "
            "and auction limits)."
        ),
    ] = "PRICE_UNIT",
    midpoint: Annotated[
        str | None,
        typer.Option(
            help="Midpoint of a percentage: LAST_TRADED_PRICE, COMPLEMENTARY_LAST_PRICE or "
            "THEORETICAL_PRICE."
        ),
    ] = None,
    port: Port = _PORT,
) -> None:
    """Set a price band of an instrument; it needs both limits."""
    request = {"low": low, "high": high, "kind": kind, "limits": limits, "midpoint": midpoint}
    _done(port, "set", command="band", symbol=symbol, **request)


@ctl.command(epilog="Example: pregao exchange ctl reference PETR4 36.50")
def reference(symbol: Symbol, price: Price, port: Port = _PORT) -> None:
    """Set the reference price of an instrument; economic indicators publish it."""
    _done(port, "set", command="reference", symbol=symbol, price=price)


@ctl.command(
    "quantity-band", epilog="Example: pregao exchange ctl quantity-band PETR4 --maximum 1000000"
)
def quantity_band(
    symbol: Symbol,
    maximum: Annotated[
        int | None, typer.Option(help="Maximum quantity of an order (default: no limit).")
    ] = None,
    average: Annotated[
        int | None, typer.Option(help="Average quantity traded in a day, for publication.")
    ] = None,
    port: Port = _PORT,
) -> None:
    """Set the quantity band of an instrument that is not a derivative."""
    request = {"symbol": symbol, "maximum": maximum, "average": average}
    _done(port, "set", command="quantity-band", **request)


@ctl.command(
    epilog="Example: pregao exchange ctl settlement DOLM26 5012.5 --flag DAILY --kind UPDATED"
)
def settlement(
    symbol: Symbol,
    price: Price,
    flag: Annotated[
        str,
        typer.Option(
            help="Day of the price: DAILY, SESSION, EXPECTED_ENTRY, "
            "ENTRY_FROM_PREVIOUS_BUSINESS_DAY or THEORETICAL_PRICE."
        ),
    ] = "DAILY",
    kind: Annotated[str, typer.Option(help="FINAL, THEORETICAL or UPDATED.")] = "FINAL",
    price_type: Annotated[
        str | None,
        typer.Option(
            help="Unit: PERCENTAGE, PU or FIXED_AMOUNT (default: that of the instrument)."
        ),
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(
            "--date",
            metavar="DATE",
            help="Day for which the price settles, from schema version 17 on (default: the trading "
            "day, or none for a price of the previous day).",
        ),
    ] = None,
    port: Port = _PORT,
) -> None:
    """Publish a settlement price; a later one with the same flag replaces it."""
    day = {"flag": flag, "date": date}
    request = {"price": price, "kind": kind, "price_type": price_type, **day}
    _done(port, "published", command="settlement", symbol=symbol, **request)


@ctl.command(epilog="Example: pregao exchange ctl closing PETR4 36.50 --previous")
def closing(
    symbol: Symbol,
    price: Price,
    previous: Annotated[
        bool, typer.Option("--previous", help="It is the price of the previous business day.")
    ] = False,
    last_trade: Annotated[
        str | None, typer.Option(metavar="DATE", help="Day on which it last traded.")
    ] = None,
    port: Port = _PORT,
) -> None:
    """Publish a closing price; net changes are relative to that of the previous day."""
    request = {"price": price, "previous": previous, "last_trade": last_trade}
    _done(port, "published", command="closing", symbol=symbol, **request)


@ctl.command("open-interest", epilog="Example: pregao exchange ctl open-interest DOLM26 125000")
def open_interest(
    symbol: Symbol,
    quantity: Annotated[int, typer.Argument(metavar="QUANTITY", help="Number of contracts.")],
    port: Port = _PORT,
) -> None:
    """Publish the number of open contracts."""
    _done(port, "published", command="open-interest", symbol=symbol, quantity=quantity)


@ctl.command(
    epilog="Examples:\n\npregao exchange ctl protect 1 85 1000 PETR4 VALE3 --executions 50\n\n"
    "pregao exchange ctl protect 1 85 1000 PETR4=both VALE3=options/both --delta 600"
)
def protect(
    number: Annotated[int, typer.Argument(metavar="ID", help="ID of the protection.")],
    firm: Annotated[int, typer.Argument(metavar="FIRM")],
    account: Annotated[int, typer.Argument(metavar="ACCOUNT")],
    watch: Annotated[
        list[str],
        typer.Argument(
            metavar="WATCH...",
            help="Instruments or assets, e.g. PETR4 or PETR4=COUNTS/CANCELS: what counts and what "
            "is canceled, each instrument, options or both (default: both).",
        ),
    ],
    fills: Annotated[int | None, typer.Option(help="Maximum filled orders.")] = None,
    executions: Annotated[int | None, typer.Option(help="Maximum executions.")] = None,
    quantity: Annotated[int | None, typer.Option(help="Maximum traded quantity.")] = None,
    net: Annotated[int | None, typer.Option(help="Maximum net quantity.")] = None,
    delta: Annotated[
        str | None, typer.Option(help="Maximum net quantity times delta, e.g. 600.")
    ] = None,
    interval: Annotated[str, typer.Option(help="Time window of the limits, e.g. 15s.")] = "15s",
    good_till: Annotated[bool, typer.Option(help="Also cancel good-till orders.")] = False,
    stops: Annotated[bool, typer.Option(help="Also cancel stop orders.")] = False,
    at_close: Annotated[bool, typer.Option(help="Also cancel at-the-close orders.")] = False,
    port: Port = _PORT,
) -> None:
    """Protect an account: at a limit, cancel its orders and reject new ones."""
    from pregao.clock import MILLISECOND
    from pregao.units import parse_duration

    _done(
        port,
        f"account {account} of firm {firm} protected",
        command="protect",
        id=number,
        firm=firm,
        account=account,
        **_watched(watch),
        new_order_fills=fills,
        executions=executions,
        traded_quantity=quantity,
        net_quantity=net,
        delta=_deltas(delta),
        interval_ms=parse_duration(interval, "--interval") // MILLISECOND,
        cancels_good_till=good_till,
        cancels_stops=stops,
        cancels_at_close=at_close,
    )


def _watched(names: list[str]) -> dict[str, Any]:
    """Return what a protection watches; names with scopes are tables."""
    if not any("=" in name for name in names):
        return {"watch": names}
    tables = []
    for each in names:
        name, _, scopes = each.partition("=")
        counts, _, cancels = scopes.partition("/")
        counts = counts or "both"
        tables.append({"watch": name, "counts": counts, "cancels": cancels or counts})
    return {"references": tables}


def _deltas(text: str | None) -> int | None:
    """Return a limit of deltas as the request has it: an integer of 1e-4."""
    if text is None:
        return None
    from decimal import Decimal, InvalidOperation

    try:
        scaled = Decimal(text).scaleb(4)
        if scaled == int(scaled):
            return int(scaled)
    except (InvalidOperation, OverflowError, ValueError):
        pass
    raise UsageError(f"--delta must be a number with at most four decimals, was {text!r}.")


@ctl.command(epilog="Example: pregao exchange ctl unprotect 1")
def unprotect(
    number: Annotated[int, typer.Argument(metavar="ID", help="ID of the protection.")],
    port: Port = _PORT,
) -> None:
    """Remove a protection of an account."""
    _done(port, f"protection {number} removed", command="unprotect", id=number)


@ctl.command(epilog="Example: pregao exchange ctl delta PETRR360 -- -0.45")
def delta(
    symbol: Symbol,
    value: Annotated[
        str, typer.Argument(metavar="DELTA", help="Fraction or percent, negative for puts.")
    ],
    port: Port = _PORT,
) -> None:
    """Set the delta with which protections count an instrument; it is 1 if it was never set."""
    _done(port, "set", command="delta", symbol=symbol, delta=value)


@ctl.command(epilog="Example: pregao exchange ctl blacklist PETR4")
def blacklist(
    symbol: Symbol,
    remove: Annotated[bool, typer.Option("--remove", help="Allow the instrument again.")] = False,
    port: Port = _PORT,
) -> None:
    """Forbid an instrument as a leg of new user-defined spreads."""
    message = f"{symbol} {'can' if remove else 'cannot'} be a leg of user-defined spreads"
    _done(port, message, command="blacklist", symbol=symbol, remove=remove)


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
def reset(channel: Channel, port: Port = _PORT) -> None:
    """Send a ChannelReset and republish all books of a channel."""
    _done(port, f"channel {channel} republished", command="reset", channel=channel)


@ctl.command("reset-book", epilog="Example: pregao exchange ctl reset-book PETR4")
def reset_book(symbol: Symbol, port: Port = _PORT) -> None:
    """Send an EmptyBook and republish the book of an instrument."""
    _done(port, f"book of {symbol} republished", command="reset-book", symbol=symbol)


@ctl.command("reset-stream", epilog="Example: pregao exchange ctl reset-stream 51")
def reset_stream(channel: Channel, port: Port = _PORT) -> None:
    """Send a SequenceReset, restart the incremental stream and republish all books of a channel."""
    _done(port, f"stream of channel {channel} restarted", command="reset-stream", channel=channel)


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
