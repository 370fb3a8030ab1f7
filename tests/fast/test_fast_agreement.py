"""Kernel and codec agree on templates of a feed's shape, on valid, mutated and random bytes.

Random bytes are tried 10,000 times per template; mutated ones by PREGAO_FUZZ_CASES.
"""

import os
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from pregao.errors import DecodeError
from pregao.fast.codec import Decoder, Encoder
from pregao.fast.columns import REASONS, FastColumnDecoder
from pregao.fast.xml import load_templates
from tests.fast.plain import PlainDecoder
from tests.fast.support import compare_with_codec, mutated

CASES = int(os.environ.get("PREGAO_FUZZ_CASES", "300"))
RANDOM_CASES = max(CASES, 10_000)
TEMPLATES = load_templates(Path(__file__).with_name("incremental.xml"))
NAMES = sorted(TEMPLATES.by_name)


def some(rng, *choices):
    return rng.choice([None, *choices])


def refresh(rng, number):
    entries = [
        {
            "Action": rng.randrange(3),
            "EntryType": rng.choice("012"),
            "Instrument": 100000109220 + rng.randrange(3),
            "Counter": number + index,
            "Price": some(rng, Decimal(rng.randrange(10**6)).scaleb(-2), Decimal("1.5")),
            "Time": 100000000 + rng.randrange(1000),
            "Size": some(rng, 100 * rng.randrange(1000)),
            "Position": some(rng, rng.randrange(1, 300)),
            "Order": some(rng, str(rng.randrange(10**9))),
            "Buyer": some(rng, "3", "122"),
            "Low": some(rng, Decimal("-3.25")),
            "Underlyings": some(rng, [], [{"Instrument": 7, "Price": Decimal("1.25")}] * 2),
        }
        for index in range(rng.choice([0, 1, 1, 1, 2, 5]))
    ]
    return {"Number": number, "SentAt": 20261115100000123 + number, "Entries": entries}


def status(rng, number):
    return {
        "Number": number,
        "SentAt": 20261115100000123 + number,
        "Instrument": some(rng, 5),
        "Group": some(rng, "DI1", "WIN"),
        "State": some(rng, 17, 18),
        "Event": some(rng, 4),
        "Offset": rng.randrange(-9, 9),
    }


def news(rng, number):
    return {
        "Number": number,
        "Headline": rng.choice(["Leilão", "Leilão prorrogado", "Fim"]),
        "Language": rng.choice(["pt", "en"]),
        "Raw": some(rng, b"\xff\x80" * 70),
        "Weight": some(rng, Decimal("0.5"), Decimal("12E3")),
        "Origin": some(rng, {"Firm": "B3", "Id": number}),
        "Lines": [{"Text": some(rng, "ação", "")} for _ in range(rng.randrange(3))],
    }


MAKERS = {"Refresh": refresh, "Status": status, "News": news}


def sound_messages(rng, names, count, **settings):
    encoder = Encoder(TEMPLATES, **settings)
    chosen = [rng.choice(names) for _ in range(count)]
    return [encoder.encode(name, MAKERS[name](rng, n)) for n, name in enumerate(chosen)]


@pytest.mark.parametrize("reset", [True, False])
def test_the_three_decoders_agree_on_a_stream(reset):
    rng = random.Random(7)
    settings = {"reset_each_message": reset}
    cases = sound_messages(rng, NAMES, CASES, **settings)
    columns = FastColumnDecoder(TEMPLATES, **settings)
    codec, plain = Decoder(TEMPLATES, **settings), Decoder(TEMPLATES, **settings)
    # In several calls, the later ones with more messages: columns grow on the way.
    for first, last in ((0, 3), (3, 30), (30, len(cases))):
        part = cases[first:last]
        assert compare_with_codec(columns, codec, part) == len(part)
    reference = PlainDecoder(TEMPLATES, **settings)
    for case in cases:
        decoded = plain.decode(case)
        assert reference.decode(case) == (decoded.template.name, decoded.values, decoded.end)


def decoded_columns(decoder, cases):
    buffer = np.frombuffer(b"".join(cases), np.uint8)
    ends = np.cumsum([len(case) for case in cases], dtype=np.int64)
    return decoder.decode(buffer, ends - [len(case) for case in cases], ends)


@pytest.mark.parametrize("seed", range(3))
def test_chosen_rows_are_those_of_the_batch(seed):
    rng = random.Random(f"chosen {seed}")
    settings = {"reset_each_message": True}
    decoder = FastColumnDecoder(TEMPLATES, **settings, reuse=bool(seed))
    cases = sound_messages(rng, NAMES, 200, **settings)
    cases += [mutated(rng, case) for case in cases]
    for part in (cases[:40], cases):
        found = decoded_columns(decoder, part)
        for template in found.templates:
            batch, every = found.batch(template), found.rows(template)
            rows = np.array(rng.choices(range(every.count), k=50), np.int64)
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                assert name in every
                assert every.has(name) == (column.null_count < len(column))
                assert every.array(name).equals(column)
                chosen = every.chosen(rows)
                assert chosen.array(name).to_pylist() == column.take(rows).to_pylist()
                assert chosen.kind(name) == column.type
            assert not every.has("Nothing")
        refresh_rows = found.rows(TEMPLATES.by_name["Refresh"])
        lists = found.batch(TEMPLATES.by_name["Refresh"]).column("Entries")
        entries = refresh_rows.entries("Entries")
        assert refresh_rows.sizes("Entries").tolist() == lists.value_lengths().to_pylist()
        assert entries.array("Order").equals(lists.flatten().field("Order"))
        rows = np.array(rng.choices(range(entries.count), k=80), np.int64)
        for name in ("EntryType", "Buyer", "Order"):  # the last one has more than seven characters
            texts = entries.chosen(rows).dictionary(name)
            texts.validate(full=True)
            assert texts.to_pylist() == entries.array(name).take(rows).to_pylist()
            assert len(set(texts.dictionary.to_pylist())) == len(texts.dictionary)


def test_texts_that_are_too_many_for_a_table_become_a_dictionary_all_the_same():
    encoder = Encoder(TEMPLATES, reset_each_message=True)
    groups = [f"G{number}" for number in range(5_000)]
    cases = [
        encoder.encode("Status", {"Number": 1, "SentAt": 2, "Group": group, "Offset": 0})
        for group in groups
    ]
    found = decoded_columns(FastColumnDecoder(TEMPLATES, reset_each_message=True), cases)
    assert found.rows(TEMPLATES.by_name["Status"]).dictionary("Group").to_pylist() == groups


@pytest.mark.parametrize("name", NAMES)
def test_mutated_messages_are_refused_by_all_or_by_none(name):
    rng = random.Random(name)
    settings = {"reset_each_message": True}
    cases = sound_messages(rng, [name], CASES, **settings)
    cases = [mutated(rng, case) for case in cases]
    columns, codec = FastColumnDecoder(TEMPLATES, **settings), Decoder(TEMPLATES, **settings)
    decoded = compare_with_codec(columns, codec, cases)
    assert 0 < decoded < len(cases)


@pytest.mark.parametrize("name", NAMES)
def test_random_bytes_give_a_message_or_a_decode_error(name):
    rng = random.Random(f"any {name}")
    start = sound_messages(rng, [name], 1)[0]
    head = start[: 3 if start[1] & 128 else 4]
    cases = [head + rng.randbytes(rng.randrange(120)) for _ in range(RANDOM_CASES)]
    cases += [start[:length] for length in range(len(start) + 1)]
    codec = Decoder(TEMPLATES, reset_each_message=True)
    refused = []
    for index, case in enumerate(cases):
        try:
            position = codec.decode(case).end
        except DecodeError as error:
            position = error.position
            refused.append(index)
        assert 0 <= position <= len(case)
    ends = np.cumsum([len(case) for case in cases], dtype=np.int64)
    positions = np.concatenate([[0], ends[:-1]])
    columns = FastColumnDecoder(TEMPLATES, reset_each_message=True)
    found = columns.decode(np.frombuffer(b"".join(cases), np.uint8), positions, ends)
    assert found.refused.tolist() == refused
    assert set(found.status[refused].tolist()) <= set(REASONS)


def test_the_published_template_files_load_unchanged():
    """Those next to the checkout; every template decodes and refuses alike."""
    project = Path(__file__).parents[2]
    for path in sorted((project.parent / "shared" / "reference" / "fast").glob("*.xml")):
        templates = load_templates(path)
        columns = FastColumnDecoder(templates, reset_each_message=True)
        codec = Decoder(templates, reset_each_message=True)
        assert not columns.left_out
        rng = random.Random(path.name)
        for number in templates.by_id:
            head = bytes([0x40 | rng.randrange(64), 0x80]) + unsigned(number)
            noise = [rng.choices(LIKELY, k=rng.randrange(90)) for _ in range(CASES // 3)]
            compare_with_codec(columns, codec, [head + bytes(each) for each in noise])


def unsigned(number):
    return bytes([number >> 7, number & 127 | 128]) if number > 127 else bytes([number | 128])


LIKELY = [*range(0x80, 0x90), *range(0xB0, 0xBA), *[0x80] * 60, *[0x81] * 10, 0x01, 0x45, 0xFE]


def test_positions_outside_of_the_buffer_are_refused():
    message = sound_messages(random.Random(1), ["Status"], 1)[0]
    buffer = np.frombuffer(message, np.uint8)
    positions = np.array([-1, 0, 5, 0, len(message), 1 << 40])
    ends = np.array([5, len(message), 4, len(message) + 1, len(message), (1 << 40) + 5])
    found = FastColumnDecoder(TEMPLATES, reset_each_message=True).decode(buffer, positions, ends)
    assert found.refused.tolist() == [0, 2, 3, 4, 5]
