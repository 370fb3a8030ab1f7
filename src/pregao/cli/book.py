"""``pregao book``: the order book of an instrument at any time."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.clock import format_ns
from pregao.units import price_text

if TYPE_CHECKING:
    from pregao.book.views import BookLevel, BookOrder
    from pregao.lake.books.replay_span import HistoricalBook

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao book PETR4 --lake lake",
        "pregao book PETR4 --lake lake --at 2026-05-21T13:00:00.123456789 --depth 5",
        "pregao book PETR4 --lake lake --at 2026-05-21T10:00:00-03:00 --orders --json",
        "The book includes all packets sent up to the time. Times are ISO 8601 (UTC unless they or "
        "--tz name a zone) or nanoseconds since 1970. The exit code is 1 if the book is stale "
        "(messages were missing, and no snapshot had replaced them yet) or unconfirmed (packets "
        "are missing that may concern it).",
    )
)


def book(
    instrument: Annotated[str, typer.Argument(metavar="SYMBOL", help="Symbol or security ID.")],
    lake: options.Lake,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time (default: end of the day).")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Levels per side; with --orders, orders.")] = 10,
    orders: Annotated[
        bool, typer.Option("--orders", help="Show single orders, in order of priority.")
    ] = False,
    as_json: options.Json = False,
    day: Annotated[
        str | None,
        typer.Option(
            "--date", metavar="DATE", help="Date, if no time is given (default: the last)."
        ),
    ] = None,
    channel: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", min=0, max=255, help="Channel, if the instrument is on several."
        ),
    ] = None,
    tz: options.Zone = None,
) -> None:
    """Show the book of an instrument at any nanosecond.

    The book is rebuilt from the last checkpoint of `pregao books` before that time.
    """
    from pregao.book.state import State
    from pregao.cli import option_values
    from pregao.errors import UsageError
    from pregao.lake.books.book_at import book_at
    from pregao.lake.storage.lake_store import LakeStore

    when = option_values.moment(at, "--at", tz)
    date_: date | None = option_values.days([day])[0] if day else None
    moment = book_at(LakeStore(lake), instrument, when, date_, channel)
    if orders and moment.market_depth is not None:
        raise UsageError(
            f"{instrument} has no orders: the feed of {moment.instrument.date}, channel "
            f"{moment.instrument.channel}, publishes price levels. Omit --orders."
        )
    if as_json:
        typer.echo(json.dumps(as_data(moment, depth, orders), indent=1))
    else:
        show(moment, depth, orders)
    if moment.data_ends_ns is not None:
        typer.echo(
            f"pregao: the channel's data ends at {format_ns(moment.data_ends_ns)}: "
            "the book shown is of that time.",
            err=True,
        )
    if not moment.current:
        typer.echo(
            "pregao: more data of that day was ingested after its books were built: "
            f"run `pregao books --lake {lake}` again.",
            err=True,
        )
    raise typer.Exit(1 if moment.book.state in (State.STALE, State.UNCONFIRMED) else 0)


def levels_of(moment: HistoricalBook) -> tuple[list[BookLevel], list[BookLevel]]:
    """Return the levels of both sides, best first."""
    from pregao.units import Side

    bids, asks = (moment.book.levels(side) for side in Side)
    return bids, asks


def as_data(moment: HistoricalBook, depth: int, with_orders: bool) -> dict[str, Any]:
    """Return a book at a time as JSON-compatible data; prices are exact strings.

    ``depth`` is the maximum number of levels, and of orders, per side.
    """
    from pregao.units import Side

    data: dict[str, Any] = {
        "date": moment.instrument.date.isoformat(),
        "channel": moment.instrument.channel,
        "security_id": moment.instrument.security_id,
        "symbol": moment.instrument.symbol,
        "at_ns": moment.at_ns,
        "state": moment.book.state.name.lower(),
        "reason": moment.reason,
        "sequence_version": moment.sequence_version,
        "sequence_number": moment.sequence_number,
        "index_in_packet": moment.index_in_packet,
        "event_time_ns": moment.event_time_ns,
        "sending_time_ns": moment.sending_time_ns,
        "data_ends_ns": moment.data_ends_ns,
        "rpt_seq": moment.rpt_seq,
        "market_depth": moment.market_depth,
        "last_price": price_text(moment.last_price),
        "trade_volume": moment.trade_volume,
        "low_limit_price": price_text(moment.low_limit_price),
        "high_limit_price": price_text(moment.high_limit_price),
    }
    for name, levels in zip(("bids", "asks"), levels_of(moment), strict=True):
        data[name] = [
            {"price": price_text(level.price), "size": level.size, "orders": level.orders}
            for level in levels[:depth]
        ]
    if with_orders:
        for name, side in (("bid_orders", Side.BID), ("ask_orders", Side.ASK)):
            data[name] = [_order(order) for order in moment.book.orders(side)[:depth]]
    return data


def _order(order: BookOrder) -> dict[str, Any]:
    return {
        "order_id": order.order_id,
        "price": price_text(order.price),
        "size": order.size,
        "firm": order.firm,
        "insert_time_ns": order.insert_time_ns,
        "implied": order.implied,
    }


def show(moment: HistoricalBook, depth: int, with_orders: bool) -> None:
    """Print a book."""
    from pregao.cli.console import console, print_line, print_table

    out = console()
    instrument = moment.instrument
    name = instrument.symbol or str(instrument.security_id)
    when = "at the end" if moment.at_ns is None else f"at {format_ns(moment.at_ns)}"
    print_line(
        out,
        f"{name} ({instrument.security_id}), channel {instrument.channel}, {instrument.date}, "
        f"{when}: {moment.book.state.name.lower()}",
    )
    if moment.reason is not None:
        print_line(out, f"{moment.reason}, and nothing has confirmed the book since")
    if moment.sending_time_ns is not None:
        print_line(
            out,
            f"after packet {moment.sequence_number} of sequence version "
            f"{moment.sequence_version}, sent {format_ns(moment.sending_time_ns)}; "
            f"last price {price_text(moment.last_price) or '-'}, "
            f"volume {'-' if moment.trade_volume is None else f'{moment.trade_volume:,}'}",
        )
    if moment.market_depth is not None:
        shown = "the best price" if moment.market_depth == 1 else (
            f"the best {moment.market_depth} prices"
        )  # fmt: skip
        print_line(out, f"the feed publishes {shown} of each side, and no orders")
    columns, rows = _orders_table(moment, depth) if with_orders else _levels_table(moment, depth)
    right = " ".join(name for name in columns if name not in ("side", "in the queue since"))
    print_table(out, "", columns, rows, numbers=right, framed=True)


_Shown = tuple[list[str], list[list[str]]]


def _levels_table(moment: HistoricalBook, depth: int) -> _Shown:
    columns = ["bid orders", "bid size", "bid", "ask", "ask size", "ask orders"]
    table = []
    bids, asks = levels_of(moment)
    for index in range(min(depth, max(len(bids), len(asks)))):
        row: list[str] = ["", "", "", "", "", ""]
        if index < len(bids):
            price = price_text(bids[index].price) or "none"
            row[:3] = [f"{bids[index].orders:,}", f"{bids[index].size:,}", price]
        if index < len(asks):
            price = price_text(asks[index].price) or "none"
            row[3:] = [price, f"{asks[index].size:,}", f"{asks[index].orders:,}"]
        table.append(row)
    return columns, table


def _orders_table(moment: HistoricalBook, depth: int) -> _Shown:
    from pregao.units import Side

    columns = ["side", "position", "price", "size", "order", "firm", "in the queue since"]
    table = []
    for side in Side:
        for position, order in enumerate(moment.book.orders(side)[:depth], 1):
            since = "" if order.insert_time_ns is None else format_ns(order.insert_time_ns)
            table.append(
                [
                    side.name.lower(),
                    str(position),
                    price_text(order.price) or "none",
                    f"{order.size:,}",
                    "" if order.order_id is None else str(order.order_id),
                    "" if order.firm is None else str(order.firm),
                    since,
                ]
            )
    return columns, table
