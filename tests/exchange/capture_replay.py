"""An independent reader of simulated captures: plain lists and dicts, nothing of the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from pregao.capture import Datagram, datagrams, read_packets
from pregao.umdf.packets import DecodedPacket, PacketDecoder

_DECODER = PacketDecoder()


def captured(path: Path) -> list[Datagram]:
    """The datagrams of a capture, all of which must be UDP."""
    return list(datagrams(read_packets(path)))


def packets(path: Path) -> list[DecodedPacket]:
    """The packets of a capture; every message must be decodable."""
    found = []
    for datagram in captured(path):
        packet = _DECODER.decode(datagram.payload)
        assert all(outcome.decoded is not None for outcome in packet.outcomes), packet.outcomes
        found.append(packet)
    return found


def arbitrated(folder: Path, channel: int) -> list[DecodedPacket]:
    """Packets of a channel from feeds A and B, in order, without heartbeats."""
    by_number: dict[tuple[int, int], DecodedPacket] = {}
    for feed in "AB":
        for packet in packets(folder / f"{channel:03d}_Incremental_{feed}.pcap"):
            if packet.header.sequenced:
                key = packet.header.sequence_version, packet.header.sequence_number
                by_number.setdefault(key, packet)
    return [by_number[key] for key in sorted(by_number)]


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a truth file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Replay:
    """Books of a channel rebuilt from messages, by number or, below version 15, by position."""

    def __init__(self, version: int) -> None:
        self.by_position = version < 15
        self.sides: dict[tuple[int, str], list[list[Any]]] = {}
        self.rpt_seq: dict[int, int] = {}
        self.figures: dict[tuple[int, str], dict[str, Any]] = {}
        self.templates: dict[str, int] = {}
        self.trades: list[tuple[int, int, str, int]] = []
        self.busts: list[tuple[int, int]] = []

    def side(self, security_id: int, kind: str) -> list[list[Any]]:
        return self.sides.setdefault((security_id, kind), [])

    def apply(self, packet: DecodedPacket) -> None:
        for decoded in packet.messages:
            name = decoded.message.name.rsplit("_", 1)[0]
            self.templates[name] = self.templates.get(name, 0) + 1
            self.message(name, decoded.values)

    def message(self, name: str, values: dict[str, Any]) -> None:
        security_id = values.get("securityID")
        if values.get("rptSeq") is not None:
            assert security_id is not None
            assert values["rptSeq"] == self.rpt_seq.get(security_id, 0) + 1, (name, values)
            self.rpt_seq[security_id] = values["rptSeq"]
        match name:
            case "ChannelReset":
                for orders in self.sides.values():
                    orders.clear()
            case "EmptyBook":
                assert security_id is not None
                self.side(security_id, "BID").clear()
                self.side(security_id, "OFFER").clear()
                self.rpt_seq[security_id] = 0
            case "Order_MBO":
                self._order(values)
            case "DeleteOrder_MBO":
                self._delete(values)
            case "MassDeleteOrders_MBO":
                orders = self.side(values["securityID"], values["mDEntryType"])
                if values["mDUpdateAction"] == "DELETE_FROM":
                    del orders[: values["mDEntryPositionNo"]]
                else:
                    orders.clear()
            case "Trade" | "ForwardTrade":
                self.trades.append(
                    (values["securityID"], values["tradeID"], price(values), values["mDEntrySize"])
                )
            case "TradeBust":
                self.busts.append((values["securityID"], values["tradeID"]))
            case "HighPrice" | "LowPrice" | "OpeningPrice" | "ExecutionStatistics":
                self.figures[values["securityID"], name] = values
            case _:
                pass

    def _order(self, values: dict[str, Any]) -> None:
        orders = self.side(values["securityID"], values["mDEntryType"])
        entry = [
            price(values),
            values["mDEntrySize"],
            values["secondaryOrderID"],
            values["enteringFirm"],
            values["mDInsertTimestamp"],
        ]
        if self.by_position:
            index = values["mDEntryPositionNo"] - 1
            if values["mDUpdateAction"] == "NEW":
                orders.insert(index, entry)
            else:
                assert orders[index][2] == entry[2]
                orders[index] = entry
            return
        if values["mDUpdateAction"] == "NEW":
            orders.append(entry)
        else:
            orders[self._find(orders, entry[2])] = entry

    def _delete(self, values: dict[str, Any]) -> None:
        orders = self.side(values["securityID"], values["mDEntryType"])
        index = self._find(orders, values["secondaryOrderID"])
        if self.by_position:
            assert index == values["mDEntryPositionNo"] - 1
        del orders[index]

    @staticmethod
    def _find(orders: list[list[Any]], number: int) -> int:
        return next(index for index, order in enumerate(orders) if order[2] == number)

    def book(self, security_id: int, kind: str) -> list[list[Any]]:
        """The orders of a side in queue order."""
        orders = self.side(security_id, kind)
        if self.by_position:
            return orders
        sign = -1 if kind == "BID" else 1
        return sorted(
            orders,
            key=lambda order: (
                order[0] is not None,
                Decimal(0) if order[0] is None else sign * Decimal(order[0]),
                order[2],
            ),
        )


def joined_late(folder: Path, channel: int) -> Replay:
    """The books at the end of a capture (version 16) that begins in the middle of a day.

    It uses the first complete snapshot loop, and the incrementals after it.
    """
    replay = Replay(16)
    processed: dict[int, int] = {}
    # A packet may come twice.
    once = {packet.header: packet for packet in packets(folder / f"{channel:03d}_Snapshot.pcap")}
    loop = iter(once.values())
    first = next(packet for packet in loop if packet.header.sequence_number == 1)
    now = 0
    for packet in (first, *loop):
        names = [decoded.message.name for decoded in packet.messages]
        if names == ["SequenceReset_1"]:
            break
        for name, decoded in zip(names, packet.messages, strict=True):
            if name == "SnapshotFullRefresh_Header_30":
                now = decoded.values["securityID"]
                processed[now] = decoded.values["lastMsgSeqNumProcessed"]
                replay.rpt_seq[now] = decoded.values["lastRptSeq"] or 0
            elif name == "SnapshotFullRefresh_Orders_MBO_71":
                for entry in decoded.values["noMDEntries"]:
                    replay.message(
                        "Order_MBO", {"securityID": now, "mDUpdateAction": "NEW", **entry}
                    )
    lowest = min(processed.values())
    incremental = arbitrated(folder, channel)
    assert incremental[0].header.sequence_number <= lowest + 1
    for packet in incremental:
        for decoded in packet.messages:
            number = processed.get(decoded.values.get("securityID", 0), lowest)
            if packet.header.sequence_number > number:
                replay.message(decoded.message.name.rsplit("_", 1)[0], decoded.values)
    return replay


def price(values: dict[str, Any]) -> Any:
    """A price as the truth writes it."""
    found = values["mDEntryPx"]
    return None if found is None else f"{found:.4f}"


def checked_books(folder: Path, channel: int, version: int) -> Iterator[dict[str, Any]]:
    """Replay a channel and yield each line of the truth that a rebuilt book was equal to."""
    lines = [
        line for line in json_lines(folder / "truth/books.jsonl") if line["channel"] == channel
    ]
    replay = Replay(version)
    waiting = sorted(lines, key=_packet_key)
    for packet in arbitrated(folder, channel):
        header = packet.header
        now = header.sequence_version, header.sequence_number
        # A book holds from its packet up to the next one.
        while waiting and _packet_key(waiting[0]) < now:
            yield _checked(replay, waiting.pop(0))
        replay.apply(packet)
    for line in waiting:
        yield _checked(replay, line)


def _packet_key(line: dict[str, Any]) -> tuple[int, int]:
    return line["sequence_version"], line["sequence_number"]


def _checked(replay: Replay, line: dict[str, Any]) -> dict[str, Any]:
    security_id = line["security_id"]
    assert replay.book(security_id, "BID") == line["bids"], line["symbol"]
    assert replay.book(security_id, "OFFER") == line["asks"], line["symbol"]
    assert replay.rpt_seq.get(security_id, 0) == line["rpt_seq"]
    for figure in line["statistics"]:
        name = figure["name"]
        if name == "ExecutionStatistics":
            seen = replay.figures[security_id, name]
            assert seen["tradeVolume"] == figure["trade_volume"]
            assert seen["numberOfTrades"] == figure["number_of_trades"]
        elif name in ("HighPrice", "LowPrice", "OpeningPrice"):
            assert price(replay.figures[security_id, name]) == figure["price"]
    return line
