"""FAST: the kernel against C, Arrow columns, and the codec against an interpreting decoder."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from bench import native
from bench.measure import Row, best
from pregao.fast.codec import Decoder, Encoder
from pregao.fast.columns import FastColumnDecoder
from pregao.fast.xml import load_templates
from tests.fast.plain import PlainDecoder

SECTION = "fast"
TEMPLATES = Path(__file__).parents[1] / "tests" / "fast" / "incremental.xml"
COUNT = 100_000


def run() -> Iterator[Row]:
    templates = load_templates(TEMPLATES)
    values = [message(random.Random(number), number) for number in range(2_000)]
    encoder = Encoder(templates, reset_each_message=True)
    messages = [encoder.encode("Refresh", each) for each in values]
    yield from bulk(templates, messages)
    yield from one_at_a_time(templates, messages, values)


def message(rng: random.Random, number: int) -> dict[str, Any]:
    """Return an incremental message with one book update, or sometimes three."""
    entries = []
    for index in range(rng.choice([1] * 9 + [3])):
        entry: dict[str, Any] = {
            "Action": rng.choice([0, 0, 1, 2]),
            "EntryType": rng.choice("01"),
            "Instrument": 100_000_109_220 + rng.randrange(200),
            "Counter": 1_000 + number + index,
            "Time": 100_000_000 + rng.randrange(80_000_000),
            "Position": rng.randrange(1, 120),
        }
        if entry["Action"] != 2:
            entry |= {
                "Price": Decimal(rng.randrange(1_000, 90_000)).scaleb(-2),
                "Size": 100 * rng.randrange(1, 90),
                "Order": str(rng.randrange(10**10)),
                "Day": 20_261_115,
                rng.choice(["Buyer", "Seller"]): str(rng.randrange(3, 400)),
            }
        entries.append(entry)
    return {
        "Number": 2_000_000 + number,
        "SentAt": 20_261_115_100_000_000 + number,
        "TradeDate": 20_261_115,
        "Entries": entries,
    }


def bulk(templates: Any, messages: list[bytes]) -> Iterator[Row]:
    many = [messages[index % len(messages)] for index in range(COUNT)]
    buffer = np.frombuffer(b"".join(many) + bytes(8), np.uint8)
    ends = np.cumsum([len(each) for each in many], dtype=np.int64)
    positions = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    decoder = FastColumnDecoder(templates, reset_each_message=True)
    template = templates.by_name["Refresh"]
    assert not len(decoder.decode(buffer, positions, ends).refused)
    ours = best(lambda: decoder.decode(buffer, positions, ends))
    size = len(buffer) / COUNT
    yield Row(
        SECTION,
        f"incremental messages ({size:.0f} bytes) to flat columns",
        COUNT / ours / 1e6,
        "M messages/s",
        "≥ 4",
    )
    reference = in_c(buffer, positions, ends)
    if reference is not None:
        assert reference() == 0
        theirs = best(reference)
        yield Row(SECTION, "  the same in C (cc -O3)", COUNT / theirs / 1e6, "M messages/s")
        yield Row(SECTION, "  ours / C", theirs / ours, "ratio", "≥ 0.28")
    seconds = best(lambda: decoder.decode(buffer, positions, ends).batch(template))
    yield Row(SECTION, "  bytes to Arrow columns", COUNT / seconds / 1e6, "M messages/s", "≥ 2")


def in_c(buffer: Any, positions: Any, ends: Any) -> Callable[[], int] | None:
    """Return a C function that does the kernel's work, or None without a C compiler."""
    library = native.compiled("fast.c")
    if library is None:
        return None
    function = library.refresh
    function.restype = ctypes.c_int64

    class Out(ctypes.Structure):
        _fields_ = (
            ("columns", ctypes.c_void_p * 64),
            ("masks", ctypes.c_void_p),
            ("arena", ctypes.c_void_p),
            ("rows", ctypes.c_int64),
            ("used", ctypes.c_int64),
        )

    columns = np.zeros((64, 2 * COUNT), np.int64)
    masks = np.zeros(2 * COUNT, np.uint64)
    arena = np.zeros(len(buffer), np.uint8)

    def work() -> int:
        out = Out()
        for number, column in enumerate(columns):
            out.columns[number] = column.ctypes.data
        out.masks, out.arena = masks.ctypes.data, arena.ctypes.data
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (buffer, positions, ends)]
        return int(function(*pointers, ctypes.c_int64(COUNT), ctypes.byref(out)))

    return work


def one_at_a_time(
    templates: Any, messages: list[bytes], values: list[dict[str, Any]]
) -> Iterator[Row]:
    count = len(messages)
    decoder = Decoder(templates, reset_each_message=True)
    encoder = Encoder(templates, reset_each_message=True)
    plain = PlainDecoder(templates, reset_each_message=True)
    seconds = best(lambda: [decoder.decode(each) for each in messages])
    yield Row(SECTION, "message codec, decode", count / seconds / 1e3, "k messages/s", "≥ 100")
    slow = best(lambda: [plain.decode(each) for each in messages], min_runs=2)
    yield Row(SECTION, "  a plain interpreter in Python", count / slow / 1e3, "k messages/s")
    seconds = best(lambda: [encoder.encode("Refresh", each) for each in values])
    yield Row(SECTION, "message codec, encode", count / seconds / 1e3, "k messages/s", "≥ 90")
