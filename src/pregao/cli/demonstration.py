"""The work of ``pregao demo``: a minute of a market of two instruments, on two streams."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from rich.markup import escape

from pregao.capture import PcapWriter, UdpFramer
from pregao.cli.decoding import Request, decode_captures
from pregao.cli.render import console, print_table
from pregao.clock import MICROSECOND, MILLISECOND, parse_ns
from pregao.sbe.codec import SchemaCodec
from pregao.schemas import Registry, bundled
from pregao.umdf.packets import PacketHeader, encode_packet

CHANNEL = 72
OPENING = parse_ns("2026-05-21T13:00:00")
STEP = 250 * MILLISECOND
TRADE_DATE = date(2026, 5, 21)
END_OF_EVENT = 0x80
INSTRUMENTS = {100_000_000_001: "DEMO3", 100_000_000_002: "DEMO4"}

_SENDER = "10.0.0.1"
_DEFINITIONS = ("233.252.14.3", 30003)
_INCREMENTAL = ("233.252.14.1", 30001)


class Sent(NamedTuple):
    """Messages that leave together in one packet."""

    where: tuple[str, int]
    messages: list[tuple[str, dict[str, Any]]]


def write_capture(path: Path) -> None:
    """Write the capture; it is the same every time."""
    codec = SchemaCodec(bundled("umdf"))
    framers = {where: UdpFramer(_SENDER, 40000, *where) for where in (_DEFINITIONS, _INCREMENTAL)}
    numbers = dict.fromkeys(framers, 0)
    now = OPENING
    with PcapWriter(path) as writer:
        for sent in _packets():
            numbers[sent.where] += 1
            header = PacketHeader(CHANNEL, 1, numbers[sent.where], now)
            messages = [codec.encode(name, values) for name, values in sent.messages]
            payload = encode_packet(header, messages)
            writer.write(now + 3 * MICROSECOND, framers[sent.where].frame(payload))
            now += STEP


def _packets() -> Iterator[Sent]:
    for security_id, symbol in INSTRUMENTS.items():
        yield Sent(_DEFINITIONS, [("SecurityDefinition_12", _definition(security_id, symbol))])
    yield Sent(_DEFINITIONS, [("SequenceReset_1", {})])
    market = _Market()
    for step in range(60):
        for security_id in INSTRUMENTS:
            yield Sent(_INCREMENTAL, market.step(security_id, step))
    for security_id in INSTRUMENTS:
        yield Sent(_INCREMENTAL, market.statistics(security_id))


def _definition(security_id: int, symbol: str) -> dict[str, Any]:
    return {
        "securityID": security_id,
        "securityExchange": "BVMF",
        "securityIDSource": "EXCHANGE_SYMBOL",
        "securityGroup": "DM",
        "symbol": symbol,
        "securityUpdateAction": "ADD",
        "securityType": "CS",
        "securitySubType": 0,
        "totNoRelatedSym": len(INSTRUMENTS),
        "minPriceIncrement": Decimal("0.01"),
        "securityValidityTimestamp": OPENING // 10**9 + 86_400,
        "issueDate": TRADE_DATE,
        "asset": symbol[:4],
        "cfiCode": "ESVUFR",
        "currency": "BRL",
        "product": "EQUITY",
        "securityDesc": f"A share to try things with: {symbol}",
    }


class _Market:
    """Orders that come, some of which trade or leave: no chance in it, always the same."""

    def __init__(self) -> None:
        self._report = dict.fromkeys(INSTRUMENTS, 0)
        self._orders: dict[int, list[tuple[int, Decimal, int]]] = {each: [] for each in INSTRUMENTS}
        self._trades: dict[int, list[tuple[Decimal, int]]] = {each: [] for each in INSTRUMENTS}
        self._order_id = 0
        # The packets of the definitions come before.
        self._now = OPENING + len(INSTRUMENTS) * STEP

    def step(self, security_id: int, step: int) -> list[tuple[str, dict[str, Any]]]:
        """A new order; every fifth time a trade with the oldest one, every seventh it leaves."""
        self._now += STEP
        orders = self._orders[security_id]
        if step % 5 == 4 and orders:
            return self._trade(security_id, *orders.pop(0))
        if step % 7 == 6 and orders:
            return [self._delete(security_id, *orders.pop(0))]
        self._order_id += 1
        price = Decimal("20.00") + Decimal(step % 9 - 4) / 100
        quantity = 100 * (1 + step % 3)
        orders.append((self._order_id, price, quantity))
        return [
            (
                "Order_MBO_50",
                self._about(
                    security_id,
                    mDUpdateAction="NEW",
                    mDEntryType="BID",
                    mDEntryPx=price,
                    mDEntrySize=quantity,
                    enteringFirm=1 + step % 4,
                    mDInsertTimestamp=self._now,
                    secondaryOrderID=self._order_id,
                    transactTime=self._now,
                ),
            )
        ]

    def _trade(
        self, security_id: int, order_id: int, price: Decimal, quantity: int
    ) -> list[tuple[str, dict[str, Any]]]:
        trades = self._trades[security_id]
        trades.append((price, quantity))
        summary = self._about(
            security_id,
            aggressorSide="SELL",
            lastPx=price,
            fillQty=quantity,
            aggressorTime=self._now,
            transactTime=self._now,
        )
        del summary["matchEventIndicator"]
        trade = self._about(
            security_id,
            matchEventIndicator=0,
            tradingSessionID="REGULAR_TRADING_SESSION",
            mDEntryPx=price,
            mDEntrySize=quantity,
            tradeID=10 * len(trades),
            tradeDate=TRADE_DATE,
            transactTime=self._now,
            tradeCondition=0,
        )
        return [
            ("ExecutionSummary_55", summary),
            ("Trade_53", trade),
            self._delete(security_id, order_id, price, quantity),
        ]

    def _delete(
        self, security_id: int, order_id: int, price: Decimal, quantity: int
    ) -> tuple[str, dict[str, Any]]:
        values = self._about(
            security_id,
            mDEntryType="BID",
            mDEntrySize=quantity,
            secondaryOrderID=order_id,
            transactTime=self._now,
            mDEntryPx=price,
        )
        return "DeleteOrder_MBO_51", values

    def statistics(self, security_id: int) -> list[tuple[str, dict[str, Any]]]:
        """Highest and lowest price, volume and average."""
        self._now += STEP
        trades = self._trades[security_id]
        prices = [price for price, _ in trades]
        volume = sum(quantity for _, quantity in trades)
        average = sum((price * quantity for price, quantity in trades), Decimal(0)) / volume
        common = {"tradeDate": TRADE_DATE, "mDEntryTimestamp": self._now}
        extremes = {"High": max(prices), "Low": min(prices)}
        messages = [
            (
                f"{name}Price_{number}",
                self._about(security_id, mDUpdateAction="NEW", mDEntryPx=extremes[name], **common),
            )
            for name, number in (("High", 24), ("Low", 25))
        ]
        statistics = self._about(
            security_id,
            tradingSessionID="REGULAR_TRADING_SESSION",
            tradeVolume=volume,
            vwapPx=average.quantize(Decimal("0.0001")),
            numberOfTrades=len(trades),
            **common,
        )
        return [*messages, ("ExecutionStatistics_56", statistics)]

    def _about(self, security_id: int, **values: Any) -> dict[str, Any]:
        self._report[security_id] += 1
        return {
            "securityID": security_id,
            "matchEventIndicator": END_OF_EVENT,
            "rptSeq": self._report[security_id],
            **values,
        }


def show(capture: Path, tables: Path) -> None:
    """Decode the capture into tables and show the trades and what to do next."""
    request = Request(
        registry=Registry.from_environment(), output=f"{tables}/", streams={}, force=True
    )
    account = decode_captures(request, [str(capture)])
    out = console()
    out.print(
        escape(f"{capture}: {account.packets} packets with {account.messages} messages, decoded")
    )
    rows = [(f"{name}.parquet", count) for name, count in sorted(account.templates.items())]
    print_table(out, f"Tables in {tables}", ("table", "rows"), rows, numbers="rows")
    trades = pq.read_table(tables / "Trade_53.parquet").to_pylist()
    shown = [
        (
            INSTRUMENTS[trade["security_id"]],
            trade["sequence_number"],
            str(trade["md_entry_px"]),
            trade["md_entry_size"],
            trade["trade_id"],
        )
        for trade in trades[:10]
    ]
    columns = ("symbol", "packet", "price", "quantity", "trade")
    print_table(out, "First trades", columns, shown, numbers="packet price quantity trade")
    out.print("Go on with:")
    for command in (
        f"pregao decode {capture} | head",
        f"pregao decode {capture} --template Trade_53 --symbol DEMO3 -o trades.csv",
        f"pregao info {capture}",
        "pregao schema Order_MBO_50",
    ):
        out.print(escape(f"  {command}"))
