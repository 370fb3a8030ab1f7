"""Ground truth of a simulation: the engine's own books and trades, to compare rebuilt books with.

The folder ``truth`` next to the captures contains

* ``books.jsonl``: one line per instrument, at intervals and at the end of the run::

    {"channel": 51, "security_id": 100000010007, "symbol": "PETR3", "final": true,
     "sequence_version": 1, "sequence_number": 812, "rpt_seq": 37, "time_ns": 1779364800000000000,
     "status": "OPEN", "bids": [["39.4100", 300, 5012, 85, 1779364799000000000], ...],
     "asks": [...], "statistics": [{"name": "HighPrice", "price": "39.6000", ...}, ...]}

  This is the book after the incremental packet with that sequence version and number. Orders are
  ``[price, size, secondaryOrderID, firm, insert time]`` in queue order; the price of an order
  without one and the firm of an implied order are null. ``rpt_seq`` is that of the instrument's
  last message.
* ``trades.jsonl``: one line per trade, amended trade and bust, in the order of publication::

    {"channel": 51, "security_id": 100000010007, "symbol": "PETR3", "trade_id": 60610,
     "price": "39.4100", "size": 300, "time_ns": 1779364800000000000, "action": "NEW",
     "buyer": 85, "seller": 386, "trade_condition": 8192}

  The ``action`` is NEW or BUST; an amended trade is NEW again with the same ``trade_id``.
  ``trd_sub_type`` is present for special trades, ``forward`` for trades of forwards.
* ``faults.json``: the number of packets of each feed that were lost, reordered and duplicated on
  purpose.
* ``summary.json``: the settings and totals of the run; it is written last.

Prices are strings with all their decimals, times nanoseconds since 1970, dates days since 1970.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import IntFlag, StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.order_book import BookSide
from pregao.exchange.engine.book.snapshots import shown_statistics
from pregao.exchange.engine.model.enums import PRICE8_DECIMALS
from pregao.exchange.engine.model.events import (
    ForwardTrade,
    MarketEvent,
    Statistic,
    Trade,
    TradeBust,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.safe_io.output_files import open_output, replace_file
from pregao.units import price_text

FOLDER = "truth"
FILES = ("books.jsonl", "trades.jsonl", "faults.json", "summary.json")
"""Files of the folder."""

_TRADES = (Trade, ForwardTrade, TradeBust)
_PRICES = frozenset({"price", "low", "high", "vwap_px"})


_Level = tuple[int | None, list[tuple[int, int, int, int]]]
"""A price and its orders: visible size, secondaryOrderID, firm and insert time of each."""


class TruthBook(NamedTuple):
    """State of an instrument in the engine at a time; levels are ordered from best to worst."""

    channel: int
    security_id: int
    symbol: str
    status: str
    bids: list[_Level]
    asks: list[_Level]
    statistics: Sequence[Statistic]
    time_ns: int
    final: bool
    """Whether this is the book at the end of the run."""


def truth_book(listing: Listing, now_ns: int, final: bool) -> TruthBook:
    """Return the state of an instrument at `now_ns`."""
    instrument = listing.instrument
    return TruthBook(
        instrument.channel,
        instrument.security_id,
        instrument.symbol,
        listing.status.name,
        _json_value(listing.bids),
        _json_value(listing.offers),
        shown_statistics(listing),
        now_ns,
        final,
    )


def _json_value(side: BookSide) -> list[_Level]:
    levels = []
    for key in reversed(side.keys):
        level = side.levels[key]
        orders = []
        order = level.head
        while order is not None:
            orders.append(
                (order.visible, order.secondary_order_id, order.firm, order.insert_time_ns)
            )
            order = order.next
        levels.append((level.price, orders))
    return levels


class TruthWriter:
    """Writes the truth of a run while it proceeds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.books = 0
        self.trades = 0
        self.busts = 0
        self._books = _opened(folder / FILES[0])
        self._trades = _opened(folder / FILES[1])
        self._labels: dict[int, str] = {}

    def add_instrument(self, instrument: Instrument) -> None:
        """Add an instrument, whose channel and symbol are written with its trades."""
        symbol = json.dumps(instrument.symbol)
        self._labels[instrument.security_id] = (
            f'"channel":{instrument.channel},"security_id":{instrument.security_id},'
            f'"symbol":{symbol}'
        )

    def publish(self, units: Iterable[MarketEvent]) -> None:
        """Write the trades among the events."""
        for unit in units:
            for item in unit.items:
                if isinstance(item, _TRADES):
                    self._trade(item)

    def _trade(self, item: Trade | ForwardTrade | TradeBust) -> None:
        line = (
            f'{{{self._labels[item.security_id]},"trade_id":{item.trade_id},'
            f'"price":"{price_text(item.price)}","size":{item.size},'
            f'"time_ns":{item.transact_time_ns}'
        )
        if isinstance(item, TradeBust):
            self.busts += 1
            self._trades.write(f'{line},"action":"BUST"}}\n')
            return
        self.trades += 1
        rest = "" if item.trd_sub_type is None else f',"trd_sub_type":{int(item.trd_sub_type)}'
        if isinstance(item, ForwardTrade):
            rest += ',"forward":true'
        self._trades.write(
            f'{line},"action":"NEW","buyer":{_or_null(item.buyer)},'
            f'"seller":{_or_null(item.seller)},"trade_condition":{int(item.trade_condition)}'
            f"{rest}}}\n"
        )

    def book(
        self, book: TruthBook, *, sequence_version: int, sequence_number: int, rpt_seq: int
    ) -> None:
        """Write the book of an instrument after the given packet."""
        self.books += 1
        line = {
            "channel": book.channel,
            "security_id": book.security_id,
            "symbol": book.symbol,
            "final": book.final,
            "sequence_version": sequence_version,
            "sequence_number": sequence_number,
            "rpt_seq": rpt_seq,
            "time_ns": book.time_ns,
            "status": book.status,
        }
        head = json.dumps(line, separators=(",", ":")).removesuffix("}")
        statistics = [_statistic(item) for item in book.statistics]
        self._books.write(
            f'{head},"bids":{_orders(book.bids)},"asks":{_orders(book.asks)},'
            f'"statistics":{json.dumps(statistics, separators=(",", ":"))}}}\n'
        )

    def close(self) -> None:
        """Close the files of books and trades."""
        self._books.close()
        self._trades.close()

    def finish(self, faults: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """Write the faults and, last, the summary."""
        self.close()
        for name, data in ((FILES[2], faults), (FILES[3], summary)):
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
            replace_file(self.folder / name, text.encode())


def _opened(path: Path) -> TextIO:
    try:
        return io.TextIOWrapper(open_output(path), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _or_null(value: int | None) -> str:
    return "null" if value is None else str(value)


def _orders(levels: list[_Level]) -> str:
    """Return orders as JSON, best first; formatted directly, as a large book has thousands."""
    lines = []
    for price, orders in levels:
        shown = "null" if price is None else f'"{price_text(price)}"'
        lines += [
            f"[{shown},{visible},{number},{firm or 'null'},{insert_time_ns}]"
            for visible, number, firm, insert_time_ns in orders
        ]
    return f"[{','.join(lines)}]"


def _statistic(item: Statistic) -> dict[str, Any]:
    """Return a statistic with the field names of its event and prices as decimal text."""
    shown: dict[str, Any] = {"name": type(item).__name__}
    for field in fields(item):
        name = field.name
        value = getattr(item, name)
        if name == "security_id":
            continue
        convert = _CONVERTED.get(name)
        if value is not None and convert is not None:
            value = convert(value)
        elif isinstance(value, StrEnum | IntFlag):
            value = value.value
        shown[name.removesuffix("8")] = value
    return shown


def _text8(mantissa: int) -> str:
    return price_text(mantissa, PRICE8_DECIMALS)


_CONVERTED: dict[str, Callable[[int], str]] = {
    **dict.fromkeys(sorted(_PRICES), price_text),
    **dict.fromkeys(("net_chg_prev_day8", "price8", "reference8"), _text8),
}
