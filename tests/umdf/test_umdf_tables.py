"""Tables of a template over versions, and key columns, held against the message codec."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.sbe.arrow import block_schema
from pregao.sbe.codec import MessageCodec
from pregao.sbe.columns import ColumnDecoder
from pregao.sbe.model import snake_case
from pregao.sbe.value_specs import ValueKind, readings
from pregao.sbe.xml import schema_from_bytes
from pregao.schemas.bundle import bundled, bundled_versions
from pregao.umdf.bulk_decoder import walk
from pregao.umdf.key_columns import key_columns
from pregao.umdf.keys import key_schema
from pregao.umdf.tables import TemplateTable
from pregao.umdf.templates import SECURITY_DEFINITIONS
from tests.sbe.support import TYPES, compare_with_codec, plausible_body, shown
from tests.umdf.survey_support import HEARTBEAT, ORDER, block_of, payload

VERSIONS = [version.number for version in bundled_versions("umdf")]
# Without the pseudo message 0, and 1, which has no fields.
TEMPLATES = sorted({m.id for v in VERSIONS for m in bundled("umdf", v).messages} - {0, 1})


def decoded(schema, message, bodies):
    """The batch of the bodies that can be decoded, and the codec's values of those."""
    codec = MessageCodec(schema, message)
    joined = b"".join(bodies)
    lengths = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(lengths)
    buffer = np.frombuffer(joined + bytes(64), np.uint8)
    blocks = np.full(len(bodies), message.block_length, np.int64)
    columns = ColumnDecoder(schema, message, schema.version).decode(
        buffer, ends - lengths, blocks, ends
    )
    kept = range(len(bodies)) if columns.kept is None else columns.kept.tolist()
    values = [
        codec.decode_body(
            joined, int(ends[n] - lengths[n]), message.block_length, schema.version, int(ends[n])
        ).values
        for n in kept
    ]
    return columns.batch, values


@pytest.mark.parametrize("template", TEMPLATES)
def test_rows_of_every_version_are_in_one_table(template):
    rng = random.Random(template)
    present = [v for v in VERSIONS if template in bundled("umdf", v).by_id]
    versions = [(bundled("umdf", v), bundled("umdf", v).by_id[template]) for v in present]
    table = TemplateTable(versions)
    columns = [field.name for field in table.schema]
    newest = [field.name for field in block_schema(versions[-1][1])]
    assert columns[: len(newest)] == newest
    for schema, message in versions:
        bodies = [plausible_body(rng, message, wild=0.1) for _ in range(20)]
        batch, values = decoded(schema, message, bodies)
        arrays = table.fit(message, batch, len(values))
        fitted = pa.RecordBatch.from_arrays(arrays, schema=table.schema)
        fitted.validate(full=True)
        own = set(block_schema(message).names)
        for row, expected in zip(fitted.to_pylist(), values, strict=True):
            assert _lean({n: v for n, v in row.items() if n in own}) == _lean(
                shown(message, expected)
            )
            assert all(row[name] is None for name in columns if name not in own)


def _lean(value):
    """Values without the columns that a version does not have."""
    if isinstance(value, dict):
        return {name: _lean(inner) for name, inner in value.items() if inner is not None}
    return [_lean(inner) for inner in value] if isinstance(value, list) else value


def test_dictionaries_only_grow():
    schema = bundled("umdf", 16)
    message = schema.by_id[50]
    table = TemplateTable([(schema, message)])
    body = bytearray(ORDER[8:])
    before, _ = decoded(schema, message, [bytes(body)])
    body[9] = 200  # mDUpdateAction
    unknown, _ = decoded(schema, message, [bytes(body)])
    index = table.schema.get_field_index("md_update_action")
    first, second, third = (table.fit(message, b, 1)[index] for b in (before, unknown, before))
    assert (first.to_pylist(), second.to_pylist(), third.to_pylist()) == (["NEW"], ["200"], ["NEW"])
    names = second.dictionary.to_pylist()
    assert names[:-1] == first.dictionary.to_pylist()
    assert third.dictionary.equals(second.dictionary)


def with_number(message, path, number):
    """A body of zeros, with an entry in each group, and a number in one field."""
    *group, name = path
    parts = [("", message), *((each.name, each) for each in message.groups)]
    body = b""
    for of_group, block in parts:
        part = bytearray(block.block_length)
        if [of_group] == (group or [""]):
            (leaf,) = (each for each in readings(block) if each.name == name)
            part[leaf.offset : leaf.end] = number.to_bytes(leaf.size, "little")
        if of_group:
            body += block.block_length.to_bytes(2, "little") + b"\1"
        body += part
    return body + bytes(sum(data.header_size for data in message.data))


def read_number(version, template, path, number):
    """The field as a message, and as columns, shows it."""
    schema = bundled("umdf", version)
    message = schema.by_id[template]
    batch, (values,) = decoded(schema, message, [with_number(message, path, number)])
    (row,) = batch.to_pylist()
    *group, name = path
    if group:
        (values,), (row,) = values[group[0]], row[snake_case(group[0])]
    return values[name], row[snake_case(name)]


UNNAMED = [
    (12, ("securityType",), 18),
    (12, ("securityUpdateAction",), ord("Z")),
    (12, ("product",), 254),
    (12, ("noLegs", "legSide"), 200),
    (12, ("noInstrAttribs", "instrAttribType"), 99),
    (3, ("securityTradingStatus",), 77),
    (10, ("tradingSessionSubID",), 254),
    (22, ("priceBandType",), 200),
    (50, ("mDUpdateAction",), 77),
    (50, ("mDEntryType",), ord("?")),
    (53, ("trdSubType",), 254),
    (55, ("aggressorSide",), 9),
    (71, ("noMDEntries", "mDEntryType"), ord("?")),
]


@pytest.mark.parametrize("version", [16, 17])
@pytest.mark.parametrize(("template", "path", "number"), UNNAMED)
def test_001_3_3_an_enumeration_value_without_a_name_is_its_number(version, template, path, number):
    assert read_number(version, template, path, number) == (number, str(number))


SETS = [
    (9, ("matchEventIndicator",), 8),
    (11, ("matchEventIndicator",), 8),
    (50, ("matchEventIndicator",), 8),
    (53, ("tradeCondition",), 16),
    (54, ("tradeCondition",), 16),
    (27, ("tradeCondition",), 16),
    (19, ("imbalanceCondition",), 16),
    (71, ("noMDEntries", "matchEventIndicator"), 8),
]


@pytest.mark.parametrize("version", [16, 17])
@pytest.mark.parametrize(("template", "path", "bits"), SETS)
def test_001_3_3_every_bit_of_a_set_is_read_named_or_not(version, template, path, bits):
    for number in (0, *(1 << bit for bit in range(bits)), 0x5A5A % (1 << bits), (1 << bits) - 1):
        assert read_number(version, template, path, number) == (number, number)


@pytest.mark.parametrize("version", VERSIONS)
def test_001_3_3_every_unnamed_number_of_every_enumeration_is_read(version):
    """Values of one byte: every one of a message or group entry is its name, its number or null."""
    checked = 0
    for message in bundled("umdf", version).messages:
        for group, block in (("", message), *((each.name, each) for each in message.groups)):
            for leaf in readings(block):
                if leaf.kind is not ValueKind.ENUM:
                    continue
                assert leaf.size == 1
                named = {member.value: member.name for member in leaf.enum.members}
                unnamed = sorted({*range(256)} - {*named, leaf.null})
                path = (group, leaf.name) if group else (leaf.name,)
                for number in (unnamed[0], unnamed[-1]):
                    found = read_number(version, message.id, path, number)
                    assert found == (number, str(number)), (message.name, path)
                for number, name in list(named.items())[:1]:
                    assert read_number(version, message.id, path, number) == (name, name)
                checked += 1
    assert checked >= 40


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("number", [0, 1, 90, 141, 9999, 0xFFFF])
def test_001_13_a_security_sub_type_is_a_number_listed_or_not(version, number):
    definition = max(SECURITY_DEFINITIONS & bundled("umdf", version).by_id.keys())
    assert read_number(version, definition, ("securitySubType",), number) == (number, number)


def old_and_new(old, new, *, group=False):
    """A message in two versions whose field ``f`` differs in type."""
    schemas = []
    for version, kind in ((1, old), (2, new)):
        field = f'<field name="f" id="1" type="{kind}"/>'
        if group:
            field = f'<group name="g" id="9" dimensionType="groupSizeEncoding">{field}</group>'
        xml = (
            '<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="p" id="9" '
            f'version="{version}" byteOrder="littleEndian"><types>{TYPES.format(n="uint8")}'
            f'</types><sbe:message name="M" id="1">{field}</sbe:message></sbe:messageSchema>'
        )
        schema = schema_from_bytes(xml.encode(), "test.xml")
        schemas.append((schema, schema.by_id[1]))
    return schemas


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "separate"),
    [
        ("int32", "int64", False),
        ("int64", "Decimal4", True),
        ("Decimal4", "Decimal8Required", True),
    ],
)
def test_a_field_of_another_type_in_an_older_version(old, new, separate, group):
    versions = old_and_new(old, new, group=group)
    table = TemplateTable(versions)
    kind = table.schema.field(0).type.value_type if group else table.schema
    names = [field.name for field in kind]
    assert names == (["f", "f_v1"] if separate else ["f"])
    for schema, message in versions:
        size = message.groups[0].block_length if group else message.block_length
        value = (5).to_bytes(size, "little")
        body = size.to_bytes(2, "little") + b"\1" + value if group else value
        batch, _ = decoded(schema, message, [body])
        fitted = pa.RecordBatch.from_arrays(table.fit(message, batch, 1), schema=table.schema)
        fitted.validate(full=True)
        (row,) = fitted.to_pylist()
        row = row["g"][0] if group else row
        shown_in = "f_v1" if separate and schema.version == 1 else "f"
        assert row.pop(shown_in) is not None
        assert not any(row.values())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_key_columns_are_those_of_the_packets(seed):
    rng = random.Random(seed)
    payloads, expected = [], []
    for packet in range(rng.randrange(1, 10)):
        number, version, channel = rng.choice([0, 1, 2**32 - 1]), rng.randrange(9), rng.randrange(9)
        messages = rng.choices([ORDER, HEARTBEAT], k=rng.randrange(1, 4))
        payloads.append(payload(number, messages, channel=channel, version=version, sent=packet))
        time = rng.choice([0, 5, 10**18])
        for index in range(len(messages)):
            key = (channel, "snapshot", version, number or None, index, time or None, packet)
            expected.append((*key, time))
    times = [0] * len(payloads)
    for row in expected:
        times[row[6]] = row[7]
    block = block_of(payloads, times=times)
    walked = walk(block.buffer, block.offset, block.length)
    rows = np.array(rng.sample(range(len(walked)), k=rng.randrange(len(walked) + 1)), np.int64)
    streams = np.ones(len(block), np.int8)
    batch = pa.RecordBatch.from_arrays(
        key_columns(walked, rows, block.time_ns, streams), schema=key_schema()
    )
    batch.validate(full=True)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        expected[row][:7] for row in rows.tolist()
    ]


def test_columns_and_codec_agree_as_these_tests_require():
    schema = bundled("umdf", 16)
    rng = random.Random(3)
    message = schema.by_id[12]
    compare_with_codec(
        schema, message, 16, [plausible_body(rng, message, wild=0) for _ in range(5)]
    )
