"""A plain receiver of the feed for the tests: packets in, books and figures out, all checked."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from pregao.sbe.codec import SbeMessage, SchemaCodec
from pregao.schemas.bundle import bundled

VERSIONS = [7, 8, 9, 10, 15, 16, 17]
END, RECOVERY, IMPLIED = 0x80, 0x20, 0x10
RESET, SEQUENCE, STATUS, EMPTY, PHASE, CHANNEL_RESET = 1, 2, 3, 9, 10, 11
ORDER, DELETE, MASS, TRADE, FORWARD, SUMMARY, BUST = 50, 51, 52, 53, 54, 55, 57
HEADER, ORDERS = 30, 71
FIGURES = {
    15: "opening",
    16: "theoretical",
    17: "closing",
    19: "imbalance",
    20: "band",
    21: "quantity band",
    22: "band",
    24: "high",
    25: "low",
    27: "last",
    28: "settlement",
    29: "open interest",
    56: "statistics",
}

Row = tuple[Any, int, int, Any, bool]
"""Price, size, secondary order id, firm, implied."""


@dataclass
class Packet:
    """A packet taken apart with nothing but ``struct`` and the message codec."""

    channel: int
    version: int
    number: int
    time_ns: int
    messages: list[SbeMessage]
    size: int

    @property
    def templates(self) -> list[int]:
        return [message.message.id for message in self.messages]


_CODECS: dict[int, SchemaCodec] = {}


def codec(version: int) -> SchemaCodec:
    if version not in _CODECS:
        _CODECS[version] = SchemaCodec(bundled("umdf", version))
    return _CODECS[version]


def read(payload: bytes, version: int = 16) -> Packet:
    """Take a packet apart; every byte must be accounted for."""
    assert len(payload) <= 1400
    channel, reserved, sequence_version, number, time_ns = struct.unpack_from("<BBHIQ", payload)
    assert reserved == 0
    messages, position = [], 16
    while position < len(payload):
        length, encoding = struct.unpack_from("<HH", payload, position)
        assert encoding == 0xEB50
        message = codec(version).decode(payload, position + 4, position + length)
        assert message.version == version
        assert message.end == position + length
        messages.append(message)
        position += length
    assert position == len(payload)
    assert messages
    return Packet(channel, sequence_version, number, time_ns, messages, len(payload))


@dataclass
class Side:
    """One side of a rebuilt book, by position or by price and number."""

    bid: bool
    by_position: bool
    rows: list[Row] = field(default_factory=list)

    def index_of(self, number: int) -> int:
        return next(index for index, row in enumerate(self.rows) if row[2] == number)

    def add(self, row: Row, position: int | None) -> None:
        assert all(known[2] != row[2] for known in self.rows)
        if self.by_position:
            assert position is not None
            assert 1 <= position <= len(self.rows) + 1
            self.rows.insert(position - 1, row)
            return
        assert position is None
        self.rows.append(row)
        sign = -1 if self.bid else 1
        self.rows.sort(key=lambda row: (row[0] is not None, sign * (row[0] or 0), row[2]))

    def find(self, number: int, position: int | None) -> int:
        index = self.index_of(number)
        assert position == (index + 1 if self.by_position else None)
        return index


@dataclass
class Instrument:
    """State of an instrument at a receiver."""

    by_position: bool
    rpt_seq: int = 0
    updated_by: int = 0
    figures: dict[Any, dict[str, Any]] = field(default_factory=dict)
    status: Any = None

    def __post_init__(self) -> None:
        self.bids = Side(True, self.by_position)
        self.offers = Side(False, self.by_position)

    def side(self, entry_type: str) -> Side:
        return {"BID": self.bids, "OFFER": self.offers}[entry_type]

    def book(self) -> tuple[list[Row], list[Row]]:
        return self.bids.rows, self.offers.rows

    def clear(self) -> None:
        self.bids.rows.clear()
        self.offers.rows.clear()


class Receiver:
    """Follows an incremental stream from any point, checking numbers, flags and counts."""

    def __init__(self, version: int = 16) -> None:
        self.version = version
        self.instruments: dict[int, Instrument] = {}
        self.next: tuple[int, int] | None = None
        self.skip: dict[int, int] = {}
        """Security id → last packet already in its snapshot."""
        self.in_event = False
        self.events = 0
        self.log: list[SbeMessage] = []

    def instrument(self, security_id: int) -> Instrument:
        if security_id not in self.instruments:
            self.instruments[security_id] = Instrument(self.version < 15)
        return self.instruments[security_id]

    def feed(self, payload: bytes) -> Packet:
        packet = read(payload, self.version)
        if packet.number == 0:
            assert packet.templates == [SEQUENCE]
            if self.next is not None:
                assert (packet.version, packet.messages[0]["nextSeqNo"]) == self.next
            return packet
        if self.next is not None:
            assert (packet.version, packet.number) == self.next
        self.next = (packet.version, packet.number + 1)
        for message in packet.messages:
            self.follow(message, packet)
        return packet

    def follow(self, message: SbeMessage, packet: Packet) -> None:
        self.log.append(message)
        template, values = message.message.id, message.values
        if template == RESET:
            assert packet.templates == [RESET]
            assert not self.in_event
            version = packet.version + 1 if packet.version < 65_534 else 1
            self.next = (version, 1)
            self.skip.clear()
            return
        self.check_flags(template, values)
        if template == CHANNEL_RESET:
            for known, instrument in self.instruments.items():
                if packet.number > self.skip.get(known, 0):
                    instrument.clear()
        security_id = values.get("securityID")
        if security_id is None or template in (4, 5, 12):
            return
        if packet.number <= self.skip.get(security_id, 0):
            return
        instrument = self.instrument(security_id)
        if template == EMPTY:
            instrument.clear()
            instrument.rpt_seq = 0
            return
        assert values["rptSeq"] == instrument.rpt_seq + 1
        instrument.rpt_seq += 1
        instrument.updated_by = packet.number
        self.apply(instrument, template, values)

    def check_flags(self, template: int, values: dict[str, Any]) -> None:
        if template in (4, 12):
            assert not self.in_event
            return
        if template == SUMMARY:
            assert "matchEventIndicator" not in values
            assert not self.in_event  # it opens its event
            self.in_event = True
            return
        flags = values["matchEventIndicator"]
        assert not flags & ~(END | RECOVERY | IMPLIED)
        if flags & RECOVERY:
            assert template in (ORDER, EMPTY, CHANNEL_RESET)
        if flags & IMPLIED:
            assert template in (ORDER, DELETE, TRADE, BUST, 27)
        self.in_event = not flags & END
        self.events += bool(flags & END)

    def apply(self, instrument: Instrument, template: int, values: dict[str, Any]) -> None:
        if template == ORDER:
            side = instrument.side(values["mDEntryType"])
            row = _row(values)
            position = values.get("mDEntryPositionNo")
            if values["mDUpdateAction"] == "NEW":
                assert values.get("mDEntryPrevSize") is None
                side.add(row, position)
            else:
                assert values["mDUpdateAction"] == "CHANGE"
                index = side.find(row[2], position)
                if self.version >= 16:
                    assert values["mDEntryPrevSize"] == side.rows[index][1]
                assert side.rows[index][0] == row[0]
                side.rows[index] = row
        elif template == DELETE:
            side = instrument.side(values["mDEntryType"])
            index = side.find(values["secondaryOrderID"], values.get("mDEntryPositionNo"))
            gone = side.rows.pop(index)
            if self.version >= 15:
                assert (values["mDEntryPx"], values["mDEntrySize"]) == gone[:2]
            else:
                assert values["mDEntrySize"] in (None, gone[1])
        elif template == MASS:
            self.mass_delete(instrument, values)
        elif template in FIGURES:
            key = figure_key(template, values)
            if values.get("mDUpdateAction") == "DELETE":
                del instrument.figures[key]
            else:
                instrument.figures[key] = values
        elif template == STATUS:
            instrument.status = values["securityTradingStatus"]

    def mass_delete(self, instrument: Instrument, values: dict[str, Any]) -> None:
        rows = instrument.side(values["mDEntryType"]).rows
        position = values.get("mDEntryPositionNo")
        if values["mDUpdateAction"] == "DELETE_THRU":
            assert position == (1 if self.version < 15 else None)
            assert rows
            rows.clear()
        else:
            assert values["mDUpdateAction"] == "DELETE_FROM"
            assert self.version < 15
            assert position is not None
            assert 2 <= position <= len(rows)
            del rows[:position]

    def join(self, loop: list[Packet]) -> None:
        """Begin with a complete loop of the snapshot stream."""
        for security_id, snapshot in snapshots(loop, self.version).items():
            header = snapshot["header"]
            instrument = self.instrument(security_id)
            instrument.rpt_seq = header["lastRptSeq"] or 0
            self.skip[security_id] = header["lastMsgSeqNumProcessed"]
            for values in snapshot["orders"]:
                instrument.side(values["mDEntryType"]).rows.append(_row(values))
            for template, values in snapshot["figures"]:
                if template != STATUS:
                    instrument.figures[figure_key(template, values)] = values


def figure_key(template: int, values: dict[str, Any]) -> Any:
    name = FIGURES[template]
    if name in ("closing", "settlement"):
        return name, values["openCloseSettlFlag"]
    if name == "band":
        return name, values["priceBandType"]
    return name


def _row(values: dict[str, Any]) -> Row:
    return (
        values["mDEntryPx"],
        values["mDEntrySize"],
        values["secondaryOrderID"],
        values["enteringFirm"],
        bool((values.get("matchEventIndicator") or 0) & IMPLIED),
    )


def loops(payloads: list[bytes], version: int = 16) -> list[list[Packet]]:
    """The complete loops of a looping stream, numbers checked; the last may be unfinished."""
    found: list[list[Packet]] = []
    current: list[Packet] = []
    expected = 1
    for payload in payloads:
        packet = read(payload, version)
        if packet.number == 0:
            assert packet.templates == [SEQUENCE]
            assert packet.messages[0]["nextSeqNo"] == 1
            assert not current
            continue
        assert packet.number == len(current) + 1
        assert packet.version == expected
        current.append(packet)
        if RESET in packet.templates:
            assert packet.templates == [RESET]
            found.append(current)
            current = []
            expected = expected + 1 if expected < 65_534 else 1
    return found


def snapshots(loop: list[Packet], version: int = 16) -> dict[int, dict[str, Any]]:
    """The snapshots of a loop by security id, their counts checked."""
    found: dict[int, dict[str, Any]] = {}
    current: dict[str, Any] | None = None
    messages = [message for packet in loop for message in packet.messages]
    assert messages.pop().message.id == RESET
    phases_over = False
    for message in messages:
        template, values = message.message.id, message.values
        if template == PHASE:
            assert not phases_over
            assert values["securityTradingEvent"] is None
        elif template == HEADER:
            phases_over = True
            current = {"header": values, "orders": [], "figures": []}
            assert values["securityID"] not in found
            found[values["securityID"]] = current
        else:
            assert current is not None
            assert values["securityID"] == current["header"]["securityID"]
            if template == ORDERS:
                assert not current["figures"]
                assert 1 <= len(values["noMDEntries"]) <= 20
                current["orders"].extend(values["noMDEntries"])
            else:
                assert template in FIGURES or template == STATUS
                assert values["rptSeq"] is None
                assert values.get("mDUpdateAction", "NEW") == "NEW"
                current["figures"].append((template, values))
    for snapshot in found.values():
        header = snapshot["header"]
        sides = [entry["mDEntryType"] for entry in snapshot["orders"]]
        assert header["totNumReports"] == len(found)
        assert header["totNumBids"] == sides.count("BID")
        assert header["totNumOffers"] == sides.count("OFFER")
        assert header["totNumStats"] == len(snapshot["figures"])
        assert ("lastSequenceVersion" in header) == (version >= 15)
        for side in ("BID", "OFFER"):
            positions = [
                entry.get("mDEntryPositionNo")
                for entry in snapshot["orders"]
                if entry["mDEntryType"] == side
            ]
            expected = range(1, len(positions) + 1) if version < 15 else [None] * len(positions)
            assert positions == list(expected)
    return found
