"""Datagrams of the legacy feed with damage: chunks, heads and rows as the plain readers give them.

A row holds what the message codec gives, or its message is named as one that does not fit.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.errors import DecodeError
from pregao.fast.codec import Decoder, FastMessage
from pregao.fast.columns import FastColumnDecoder
from pregao.legacy.bulk import FAULTS, HeadReader, chunk_columns, whole_messages
from pregao.legacy.messages import message_type
from pregao.legacy.reassembly import Chunk, read_chunks, write_chunks
from pregao.legacy.tables import DECIMAL, bundled_tables, repeated_of, rows_of
from pregao.legacy.times import timestamp_ns
from pregao.schemas.fast_templates import bundled_templates
from tests.fuzzing.damage import damaged
from tests.fuzzing.fast_values import stream_of

HEADER = 10


def prepare() -> list[list[bytes]]:
    """Write datagrams of some messages, complete and in chunks."""
    rng = random.Random(6)
    found = []
    for _ in range(60):
        stream = stream_of(rng, bundled_templates(), 4, reset=True)
        found.append(
            [
                each
                for number, body in stream
                for each in write_chunks(number, body, rng.choice((1_420, 1_420, 1_420, 60)))
            ]
        )
    return found


def run(rng: random.Random, prepared: list[list[bytes]]) -> bool:
    """Damage datagrams and read them both ways; return whether every message was decoded."""
    datagrams = []
    for datagram in rng.choice(prepared):
        share = rng.random()
        if share < 0.3:
            datagram = damaged(rng, datagram)
        elif share < 0.6:
            # The header fits, so that the message is reached.
            body = damaged(rng, datagram[HEADER:])
            datagram = datagram[:8] + len(body).to_bytes(2, "big") + body
        if datagrams and rng.random() < 0.3:
            datagram = datagrams.pop() + datagram
        datagrams.append(datagram)
    # Without a byte after the last one: a kernel that reads further is found.
    buffer = np.frombuffer(b"".join(datagrams), np.uint8)
    length = np.array([len(each) for each in datagrams], np.int32)
    offset = np.cumsum(length, dtype=np.int64) - length
    found = chunk_columns(buffer, offset, length)
    chunks = []
    for at, datagram in enumerate(datagrams):
        own, reason = one_by_one(datagram)
        assert found.chunks[at] == len(own)
        assert FAULTS.get(int(found.fault[at]), "") == reason
        chunks += own
    assert found.number.tolist() == [each.number for each in chunks]
    assert found.count.tolist() == [each.count for each in chunks]
    assert found.index.tolist() == [each.index for each in chunks]
    payloads = [
        buffer[start : start + size].tobytes()
        for start, size in zip(found.start.tolist(), found.size.tolist(), strict=True)
    ]
    assert payloads == [each.payload for each in chunks]
    heads = HeadReader(bundled_templates())
    keys = heads.keys(buffer, offset, length)
    assert (keys.sound == (found.chunks > 0)).all()
    joined = [(row, rng.choice(chunks).payload) for row in range(min(len(chunks), 2))]
    whole = whole_messages(buffer, found, joined if rng.random() < 0.5 else [])
    read = heads.read(whole.buffer, whole.start, whole.end - whole.start)
    columns = FastColumnDecoder(bundled_templates(), reset_each_message=True).decode(
        whole.buffer, whole.start, whole.end
    )
    codec = Decoder(bundled_templates(), reset_each_message=True)
    decoded: list[FastMessage | None] = []
    for at, (start, end) in enumerate(zip(whole.start.tolist(), whole.end.tolist(), strict=True)):
        try:
            decoded.append(codec.decode(whole.buffer[start:end].tobytes()))
        except DecodeError:
            decoded.append(None)
            assert columns.status[at]
            continue
        compare_head(read, at, decoded[-1])
    assert columns.refused.tolist() == [at for at, each in enumerate(decoded) if each is None]
    for template in columns.templates:
        if columns.count(template):
            compare_rows(template, columns, decoded)
    return None not in decoded and bool(decoded)


def one_by_one(datagram: bytes) -> tuple[list[Chunk], str]:
    """Return the chunks that the plain reader gives, and why it ends."""
    found = []
    try:
        for chunk in read_chunks(datagram):
            found.append(chunk)
    except DecodeError as error:
        return found, error.reason
    return found, ""


def compare_head(heads: Any, at: int, message: Any) -> None:
    """Compare the part of a message that was read first with the complete one."""
    assert heads.template[at] == message.template.id
    if heads.number[at] >= 0:
        assert heads.number[at] == message["MsgSeqNum"]
        time = timestamp_ns(message["SendingTime"])
        # Columns do not say whether a day is in its month, and read texts of seventeen digits only.
        if time is not None and isinstance(message["SendingTime"], int):
            assert heads.sending_time_ns[at] == time


def compare_rows(template: Any, columns: Any, decoded: list[FastMessage | None]) -> None:
    """Compare the rows of a template with the values that the codec gives."""
    table = bundled_tables()[message_type(template)]
    rows = rows_of(table, template, columns)
    made = pa.table(rows.columns(np.arange(len(rows.message))), names=table.names)
    made.validate(full=True)
    found = made.to_pylist()
    unfit = set(rows.unfit.tolist())
    repeated = repeated_of(template)
    messages = columns.rows(template)
    own = messages.entries(repeated) if repeated else ()
    # A constant of its template has no separate column.
    fields = [
        (name, field, held, field in own)
        for name, field, held in table.columns
        if field in own or field in messages
    ]
    at = 0
    for ordinal, index in enumerate(columns.messages(template).tolist()):
        message = decoded[index]
        assert message is not None
        entries = message.values.get(repeated) if repeated else None
        for entry_index, entry in enumerate(entries or [{}]):
            assert (rows.message[at], rows.entry[at]) == (ordinal, entry_index)
            if ordinal not in unfit:
                for name, field, held, of_entry in fields:
                    value = (entry if of_entry else message.values).get(field)
                    compare_value(found[at][name], value, held)
            at += 1
    assert at == len(found)


def compare_value(found: Any, value: Any, held: Any) -> None:
    """Compare a cell with what the codec gives; casts and JSON only by whether they are there."""
    same = {Decimal: DECIMAL, int: pa.int64(), str: pa.string()}.get(type(value))
    if same == held:
        assert found == value
    else:
        assert (found is None) == (value is None)
