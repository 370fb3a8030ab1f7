"""Columns as text, held against values written one at a time."""

import csv
import io
import json
import random
from decimal import Decimal
from unicodedata import category

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.cli.decode.tables import text_bytes
from pregao.cli.decode.text import (
    TextFormat,
    column_text,
    csv_header,
    csv_lines,
    json_lines,
    numbers_text,
    shown,
    text_lines,
    time_text,
)
from pregao.clock import format_ns
from pregao.sbe.xml import schema_from_bytes
from pregao.schemas.bundle import bundled
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, walk
from pregao.umdf.key_columns import key_columns
from pregao.umdf.tables import TemplateTable, columns_of
from tests.cli.market import VERSIONS, as_json, as_text, month_year, wild_market
from tests.sbe.support import TYPES
from tests.umdf.survey_support import block_of

INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | INT64, max_size=20), st.integers(0, 18), st.integers(0, 3))
def test_numbers_are_written_exactly(values, scale, skipped):
    array = pa.array(values, pa.int64())[skipped:]
    expected = [None if v is None else format(_exact(v, scale), "f") for v in values[skipped:]]
    assert numbers_text(array, scale).to_pylist() == expected


def _exact(value, scale):
    sign, digits, _ = Decimal(value).as_tuple()
    return Decimal((sign, digits, -scale))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | st.integers(0, 2**63 - 1), max_size=10))
def test_times_are_written_with_all_digits(values):
    array = pa.array(values, pa.int64())
    assert time_text(array).to_pylist() == [None if v is None else format_ns(v) for v in values]


def test_times_beyond_year_9999_stay_numbers():
    array = pa.array([0, 253402300799, 253402300800, None, 2**62], pa.int64())
    assert time_text(array, "s").to_pylist() == [
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "253402300800",
        None,
        str(2**62),
    ]


def batches(market, version):
    """The decoded batches of a market's packets, with their keys and the codec's rows."""
    block = block_of([payload for _, payload in market.packets])
    walked = walk(block.buffer, block.offset, block.length)
    row_numbers = {}
    for number, (packet, index) in enumerate(
        zip(walked.packet.tolist(), walked.index_in_packet.tolist(), strict=True)
    ):
        row_numbers[packet, index] = number
    rows = {}
    for row in market.rows(start=0):
        rows[row_numbers[row.key[5] // 1000, row.key[4]]] = row
    for outcome in BulkDecoder().decode(walked):
        if isinstance(outcome, MessageBatch) and outcome.version == version:
            streams = np.zeros(len(block), np.int8)
            keys = key_columns(walked, outcome.rows, block.time_ns, streams)
            yield outcome, keys, [rows[row] for row in outcome.rows.tolist()]


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_of_every_template_agree_with_the_codec(version):
    seen = set()
    for outcome, keys, rows in batches(wild_market(version, (version,), 300), version):
        message = outcome.message
        seen.add(message.id)
        texts = bytes(text_bytes(text_lines(outcome, keys))).decode().split("\n")[:-1]
        jsons = bytes(text_bytes(json_lines(outcome, keys))).decode().split("\n")[:-1]
        table = TemplateTable([(outcome.schema, message)])
        fitted = table.fit(message, outcome.columns, len(rows))
        lines = csv_header(table) + bytes(text_bytes(csv_lines(table, fitted, keys)))
        parsed = list(csv.DictReader(io.StringIO(lines.decode(), newline="")))
        assert len(texts) == len(jsons) == len(parsed) == len(rows)
        for text, line, fields, row in zip(texts, jsons, parsed, rows, strict=True):
            number = "-" if row.key[3] is None else row.key[3]
            head = f"72 incremental {row.key[2]}:{number}.{row.key[4]} {message.name}"
            expected = as_text(message, row.values)
            assert text.split(" ", 1)[1] == (f"{head} {expected}" if expected else head)
            found = json.loads(line)
            assert found["fields"] == as_json(message, row.values)
            assert (found["message"], found["template"]) == (message.name, message.id)
            assert (found["version"], found["sequence_number"]) == (version, row.key[3])
            compare_csv(message, row, fields)
    assert len(seen) > 20


def compare_csv(message, row, fields):
    assert [fields.pop(name) for name in ("channel_id", "sequence_version", "sequence_number")] == [
        "72",
        str(row.key[2]),
        "" if row.key[3] is None else str(row.key[3]),
    ]
    expected = as_json(message, row.values)
    assert list(fields) == list(expected)
    for column in columns_of(message):
        text, value = fields[column.name], row.values[column.name]
        if value is None:
            assert text == ""
        elif column.repeats:
            assert json.loads(text) == expected[column.name]
        elif column.children:
            assert text == month_year(value)
        else:
            assert text == str(expected[column.name])


def sample(kind, raw, *, encoding=""):
    """A column of a type that UMDF does not have."""
    xml = (
        '<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="p" id="9" '
        f'version="1" byteOrder="littleEndian"><types>{TYPES.format(n="uint8")}{encoding}'
        f'</types><sbe:message name="M" id="1"><field name="f" id="1" type="{kind}"/>'
        "</sbe:message></sbe:messageSchema>"
    )
    schema = schema_from_bytes(xml.encode())
    message = schema.by_id[1]
    from pregao.sbe.columns import ColumnDecoder

    size = message.block_length
    buffer = np.frombuffer(raw + bytes(64), np.uint8)
    starts = np.arange(0, len(raw), size, dtype=np.int64)
    blocks = np.full(len(starts), size, np.int64)
    decoded = ColumnDecoder(schema, message, 1).decode(buffer, starts, blocks, starts + size)
    return decoded.batch.column(0), columns_of(message)[0]


def in_dialects(array, column):
    return [column_text(array, column, dialect).to_pylist() for dialect in TextFormat]


def test_types_that_only_a_users_schema_has():
    numbers = '<type name="Four" primitiveType="uint16" length="2"/>'
    array, column = sample("Four", b"\1\0\2\0\3\0\4\0", encoding=numbers)
    assert in_dialects(array, column) == [
        ["[1 2]", "[3 4]"],
        ["[1,2]", "[3,4]"],
        ['"[1,2]"', '"[3,4]"'],
    ]
    raw = '<type name="Raw" primitiveType="uint8" length="2"/>'
    array, column = sample("Raw", b"\xab\0\1\2", encoding=raw)
    assert in_dialects(array, column) == [["ab00", "0102"], ['"ab00"', '"0102"'], ["ab00", "0102"]]
    array, column = sample("double", np.array([1.5, np.inf]).tobytes())
    assert in_dialects(array, column) == [["1.5", '"inf"'], ["1.5", '"inf"'], ["1.5", "inf"]]
    pair = (
        '<composite name="Pair"><type name="a" primitiveType="uint8"/>'
        '<type name="b" primitiveType="uint8" presence="optional"/></composite>'
    )
    array, column = sample("Pair", b"\1\2\3\xff", encoding=pair)
    assert in_dialects(array, column) == [
        ["{a=1 b=2}", "{a=3}"],
        ['{"a":1,"b":2}', '{"a":3,"b":null}'],
        ['"{""a"":1,""b"":2}"', '"{""a"":3,""b"":null}"'],
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | st.text(max_size=8), min_size=1, max_size=6))
@example(["\U00031350"])
def test_any_text_can_be_read_back(values):
    values = [None if v is None else v.encode("utf-8", "replace").decode() for v in values]
    column = columns_of(bundled("umdf").by_id[12])[-1]
    array = pa.array(values, pa.string())
    as_json = column_text(array, column, TextFormat.JSON).to_pylist()
    assert [None if text is None else json.loads(text) for text in as_json] == values
    quoted = column_text(array, column, TextFormat.CSV).to_pylist()
    lines = "".join(f"x,{'' if text is None else text}\r\n" for text in quoted)
    rows = list(csv.reader(io.StringIO(lines, newline="")))
    assert [row[1] for row in rows] == [value or "" for value in values]
    for text in column_text(array, column, TextFormat.TEXT).to_pylist():
        # Characters younger than this Python's tables are nothing to it, and harmless.
        assert text is None or (text and all(c.isprintable() or category(c) == "Cn" for c in text))


def test_no_text_can_disturb_a_terminal():
    rng = random.Random(1)
    for _ in range(200):
        text = "".join(chr(rng.randrange(0, 0x300)) for _ in range(5))
        assert shown(text).isprintable()
        assert json.loads(shown(text)) == text
