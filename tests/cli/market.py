"""Captures for the tests of the commands, and what the message codec says they hold."""

import random
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from pregao.capture import PcapWriter, UdpFramer
from pregao.clock import format_ns
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.model import snake_case
from pregao.sbe.value_specs import ValueKind, beyond_columns, readings
from pregao.schemas.bundle import bundled, bundled_versions
from pregao.umdf.packets import PacketDecoder, PacketHeader, encode_packet
from tests.sbe.support import fitted, plausible_body

INCREMENTAL = ("233.252.14.1", 30001)
SNAPSHOT = ("233.252.14.2", 30002)
DEFINITION = ("233.252.14.3", 30003)
STREAM_OF = {INCREMENTAL: "incremental", SNAPSHOT: "snapshot", DEFINITION: "definition"}
START = 1_779_368_400_000_000_000
VERSIONS = [version.number for version in bundled_versions("umdf")]
CODEC = SchemaCodec(bundled("umdf", 16))

ORDER = {
    "securityID": 1001,
    "matchEventIndicator": 0x80,
    "mDUpdateAction": "NEW",
    "mDEntryType": "BID",
    "mDEntryPx": Decimal("20.5000"),
    "mDEntrySize": 100,
    "secondaryOrderID": 7,
    "rptSeq": 1,
}
TRADE = {
    "securityID": 1002,
    "matchEventIndicator": 0,
    "tradingSessionID": "REGULAR_TRADING_SESSION",
    "tradeCondition": 0,
    "mDEntryPx": Decimal("21.0000"),
    "mDEntrySize": 300,
    "tradeID": 10,
    "tradeDate": date(2026, 5, 21),
}


def order(**values):
    return CODEC.encode("Order_MBO_50", {**ORDER, **values})


def trade(**values):
    return CODEC.encode("Trade_53", {**TRADE, **values})


def heartbeat():
    return CODEC.encode("Sequence_2", {"nextSeqNo": 5})


def reset():
    return CODEC.encode("SequenceReset_1", {})


def definition(security_id, symbol, **values):
    return CODEC.encode(
        "SecurityDefinition_12",
        {
            "securityID": security_id,
            "securityExchange": "BVMF",
            "securityIDSource": "EXCHANGE_SYMBOL",
            "securityGroup": "DM",
            "symbol": symbol,
            "securityUpdateAction": "ADD",
            "securityType": "CS",
            "securitySubType": 0,
            "totNoRelatedSym": 2,
            "issueDate": date(2026, 5, 21),
            "asset": "DEMO",
            "cfiCode": "ESVUFR",
            "currency": "BRL",
            "product": "EQUITY",
            **values,
        },
    )


@dataclass
class Row:
    """A message as the packet decoder reads it."""

    key: tuple[Any, ...]
    """Channel, stream, sequence version and number, index, capture and sending time."""
    message: Any
    version: int
    values: dict[str, Any]


@dataclass
class Market:
    """Packets to be written to a capture, in sequence."""

    packets: list[Any] = field(default_factory=list)
    now: int = START

    def send(self, *messages, to=INCREMENTAL, number=None, channel=72, version=1, after=1000):
        self.now += after
        if number is None:
            number = 1 + sum(1 for where, p in self.packets if where == to and p[4:8] != bytes(4))
        header = PacketHeader(channel, version, number, self.now)
        self.packets.append((to, encode_packet(header, messages)))
        return self

    def raw(self, payload, to=INCREMENTAL):
        self.packets.append((to, payload))
        return self

    def write(self, path, start=START):
        framers: dict[Any, UdpFramer] = {}
        with PcapWriter(path) as writer:
            for index, (where, payload) in enumerate(self.packets):
                framer = framers.setdefault(where, UdpFramer("10.0.0.1", 1000, *where))
                writer.write(start + 1000 * index, framer.frame(payload))
        return path

    def rows(self, start=START, streams=None, whole=False):
        """Rows that the message codec decodes and that fit columns, in packet order.

        Values that do not fit columns are null, unless the values of messages are requested.
        """
        streams = STREAM_OF if streams is None else streams
        found = []
        decoder = PacketDecoder()
        for index, (where, payload) in enumerate(self.packets):
            packet = decoder.decode(payload)
            head = packet.header
            for outcome in packet.outcomes:
                if outcome.decoded is None or outcome.frame is None:
                    continue
                key = (
                    head.channel,
                    streams[where],
                    head.sequence_version,
                    head.sequence_number or None,
                    outcome.frame.index_in_packet,
                    start + 1000 * index,
                    head.sending_time_ns,
                )
                decoded = outcome.decoded
                if beyond_columns(decoded.message, decoded.values) is not None:
                    continue
                values = decoded.values
                if not whole:
                    values = fitted(decoded.message, values)
                found.append(Row(key, decoded.message, decoded.version, values))
        return found


def small_market():
    """Two instruments on two streams, with heartbeats."""
    market = Market()
    market.send(definition(1001, "DEMO3"), to=DEFINITION)
    market.send(definition(1002, "DEMO4"), to=DEFINITION)
    market.send(reset(), to=DEFINITION)
    market.send(order(rptSeq=1))
    market.send(heartbeat(), number=0)
    market.send(order(rptSeq=2, securityID=1002), trade(rptSeq=3))
    market.send(heartbeat(), to=DEFINITION, number=0)
    market.send(order(rptSeq=4, mDEntryPx=None))
    return market


def wild_market(seed, versions=tuple(VERSIONS), count=60, wild=0.1):
    """Random messages of all templates and of some versions, decodable or not."""
    rng = random.Random(seed)
    market = Market()
    market.send(order())  # so that the stream is detected
    for _ in range(count):
        messages = []
        for _ in range(rng.randrange(1, 4)):
            schema = bundled("umdf", rng.choice(versions))
            message = rng.choice([m for m in schema.messages if m.id])
            codec = SchemaCodec(schema).codec(message.id)
            assert codec is not None
            messages.append(codec.header + plausible_body(rng, message, wild=wild))
        market.send(*messages, version=rng.randrange(1, 4), number=rng.randrange(3))
    return market


def as_json(block, values):
    """Values in the form of a JSON file."""
    result = {}
    for reading in readings(block):
        result[reading.name] = _json_value(reading, values[reading.name])
    for group in block.groups:
        result[group.name] = [as_json(group, entry) for entry in values[group.name]]
    for data in block.data:
        result[data.name] = values[data.name]
    return result


def _json_value(reading, value):
    if value is None:
        return None
    match reading.kind:
        case ValueKind.RECORD:
            return {m.name: _json_value(m, value[m.name]) for m in reading.members}
        case ValueKind.DECIMAL:
            return format(value, "f")
        case ValueKind.DATE:
            return value.isoformat()
        case ValueKind.BYTES:
            return value.hex()
        case _:
            return value


def as_text(block, values):
    """Values in the form of a line for people."""
    parts = []
    for reading in readings(block):
        text = _text_value(reading, values[reading.name])
        if text is not None:
            parts.append(f"{reading.name}={text}")
    for group in block.groups:
        entries = ["{" + as_text(group, entry) + "}" for entry in values[group.name]]
        if entries:
            parts.append(f"{group.name}=[{' '.join(entries)}]")
    for data in block.data:
        if values[data.name] is not None:
            parts.append(f"{data.name}={_words(values[data.name])}")
    return " ".join(parts)


def _text_value(reading, value):
    if value is None:
        return None
    match reading.kind:
        case ValueKind.RECORD if [m.name for m in reading.members] == [
            "year",
            "month",
            "day",
            "week",
        ]:
            return month_year(value)
        case ValueKind.RECORD:
            inner = [(m.name, _text_value(m, value[m.name])) for m in reading.members]
            return "{" + " ".join(f"{n}={v}" for n, v in inner if v is not None) + "}"
        case ValueKind.DECIMAL:
            return format(value, "f")
        case ValueKind.SET:
            return "|".join(reading.set.names(value)) or "0"
        case ValueKind.TIME if reading.unit == "ns":
            return format_ns(value)
        case ValueKind.TIME if 0 <= value <= 253402300799:
            return format_ns(value * 10**9).replace(".000000000", "")
        case ValueKind.TEXT:
            return _words(value)
        case _:
            return str(value)


def _words(text):
    from pregao.cli.decode.text import shown

    plain = text and all(c.isprintable() and not c.isspace() and c not in '"{}[]=\\' for c in text)
    return text if plain else shown(text)


def month_year(value):
    text = f"{value['year'] or 0:04}{value['month'] or 0:02}"
    if value["day"] is not None:
        text += f"{value['day']:02}"
    return text if value["week"] is None else f"{text}w{value['week']}"


def as_table(block, values):
    """Values in the form of a table's row, without the nulls."""
    result = {}
    for reading in readings(block):
        value = _table_value(reading, values[reading.name])
        if value is not None:
            result[reading.column] = value
    for group in block.groups:
        result[snake_case(group.name)] = [as_table(group, entry) for entry in values[group.name]]
    for data in block.data:
        if values[data.name] is not None:
            result[snake_case(data.name)] = values[data.name]
    return result


def _table_value(reading, value):
    if value is None:
        return None
    if reading.kind is ValueKind.RECORD:
        members = {m.column: _table_value(m, value[m.name]) for m in reading.members}
        return {name: inner for name, inner in members.items() if inner is not None}
    return str(value) if reading.kind is ValueKind.ENUM else value


def lean(value):
    """A row without its nulls."""
    if isinstance(value, dict):
        return {name: lean(inner) for name, inner in value.items() if inner is not None}
    return [lean(inner) for inner in value] if isinstance(value, list) else value
