"""Synthetic packets: messages of every template in the proportions of a busy channel."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import Any

from pregao.capture import PcapWriter, UdpFramer
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.model import Block, MessageTemplate
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet

START = 1_750_000_000_000_000_000
SHARES = {50: 45.0, 51: 30.0, 53: 6.0, 55: 4.0, 56: 4.0, 3: 1.0, 22: 1.0, 10: 0.5, 71: 0.3}
"""Per hundred messages; each other template has `OTHER_SHARE`."""
OTHER_SHARE = 0.25


def message_pool(per_template: int = 50, version: int = 16) -> dict[int, list[bytes]]:
    """Return encoded messages of every template, with plausible values."""
    schema = bundled("umdf", version)
    codec = SchemaCodec(schema)
    rng = random.Random(1)
    return {
        message.id: [codec.encode(message.name, values(rng, message)) for _ in range(per_template)]
        for message in schema.messages
        if message.id != 0
    }


def values(rng: random.Random, block: Block) -> dict[str, Any]:
    found: dict[str, Any] = {reading.name: value(rng, reading) for reading in readings(block)}
    for group in block.groups:
        count = 20 if group.name == "noMDEntries" else rng.randrange(3)
        found[group.name] = [values(rng, group) for _ in range(count)]
    for data in block.data:
        found[data.name] = rng.choice([None, "PETROBRAS PN N2", "VALE ON NM"])
    return found


def value(rng: random.Random, reading: ValueSpec) -> Any:
    match reading.kind:
        case ValueKind.RECORD:
            return {member.name: value(rng, member) for member in reading.members}
        case ValueKind.ENUM:
            assert reading.enum is not None
            return rng.choice(reading.enum.members).name
        case ValueKind.SET:
            return 0x80
        case ValueKind.DECIMAL:
            return rng.randrange(1, 100_000)
        case ValueKind.DATE:
            return date(2026, 5, rng.randrange(1, 29))
        case ValueKind.TIME:
            return START + rng.randrange(10**9) if reading.unit == "ns" else 2_000_000_000
        case ValueKind.TEXT:
            return "PETR4"[: reading.size]
        case _:
            high = min(reading.primitive.maximum, 1 << 40) - 2
            if reading.maximum is not None:
                high = min(high, int(reading.maximum))
            return rng.randrange(1, max(2, high))


_USUAL = {
    "price", "account", "investorID", "clOrdID", "receivedTime", "marketSegmentReceivedTime",
    "mDEntryPx", "enteringFirm", "rptSeq",
}  # fmt: skip
"""Optional fields of a usual order and its reports; the others are null."""


def plain_orders(message: MessageTemplate, count: int) -> list[dict[str, Any]]:
    """Return the values of usual order messages, without the fields of special order types."""
    rng = random.Random(3)
    fields = [field for field in readings(message) if field.required or field.name in _USUAL]
    orders = [{field.name: value(rng, field) for field in fields} for _ in range(count)]
    for order in orders:
        for field in fields:
            if field.kind is ValueKind.DECIMAL:
                order[field.name] = Decimal(rng.randrange(1, 20_000)) / 100
    return orders


def packets(count: int, seed: int = 1) -> list[bytes]:
    """Return packets, mostly of one message, some of two, three or ten."""
    rng = random.Random(seed)
    pool = message_pool()
    templates = list(pool)
    weights = [SHARES.get(template, OTHER_SHARE) for template in templates]
    result = []
    for number in range(1, count + 1):
        size = rng.choices([1, 2, 3, 10], [83, 10, 4, 3])[0]
        chosen = rng.choices(templates, weights, k=size)
        messages = [rng.choice(pool[template]) for template in chosen]
        header = PacketHeader(84, 1, number, START + number * 1000)
        result.append(encode_packet(header, messages))
    return result


def write_capture(path: str, payloads: list[bytes], copies: int) -> None:
    """Write the packets as a multicast capture, repeated with new times."""
    framer = UdpFramer("10.0.0.1", 40000, "233.252.14.1", 30001)
    with PcapWriter(path) as writer:
        time = START
        for _ in range(copies):
            for payload in payloads:
                time += 1000
                writer.write(time, framer.frame(payload))


def order_messages(count: int) -> tuple[bytes, MessageTemplate]:
    """Return a buffer of concatenated order messages (headers and bodies), and their template."""
    pool = message_pool(500)[50]
    rng = random.Random(2)
    return b"".join(rng.choices(pool, k=count)), bundled("umdf", 16).by_id[50]
