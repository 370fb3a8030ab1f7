"""Helpers of the SBE tests: random schemas, random values, and rows in the form of columns."""

import math
import random
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
from hypothesis import strategies as st

from pregao.errors import DecodeError
from pregao.sbe.codec import MessageCodec
from pregao.sbe.columns import ColumnDecoder
from pregao.sbe.model import Nature, snake_case
from pregao.sbe.value_specs import MAX_MANTISSA, ValueKind, beyond_columns, fits_column, readings
from pregao.units import MAX_DAY, MIN_DAY

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]

TYPES = """
<composite name="messageHeader">
  <type name="blockLength" primitiveType="uint16"/><type name="templateId" primitiveType="uint16"/>
  <type name="schemaId" primitiveType="uint16"/><type name="version" primitiveType="uint16"/>
</composite>
<composite name="groupSizeEncoding">
  <type name="blockLength" primitiveType="uint16"/><type name="numInGroup" primitiveType="{n}"/>
</composite>
<composite name="Decimal4">
  <type name="mantissa" primitiveType="int64" presence="optional"/>
  <type name="exponent" primitiveType="int8" presence="constant">-4</type>
</composite>
<composite name="Decimal8Required">
  <type name="mantissa" primitiveType="int64"/>
  <type name="exponent" primitiveType="int8" presence="constant">-8</type>
</composite>
<composite name="Decimal32">
  <type name="mantissa" primitiveType="int32" presence="optional"/>
  <type name="exponent" primitiveType="int8" presence="constant">-2</type>
</composite>
<enum name="TimeUnit" encodingType="uint8">
  <validValue name="SECOND">0</validValue><validValue name="NANOSECOND">9</validValue>
</enum>
<composite name="Nanos">
  <type name="time" primitiveType="uint64" presence="optional" nullValue="0"/>
  <type name="unit" primitiveType="uint8" presence="constant" valueRef="TimeUnit.NANOSECOND"/>
</composite>
<composite name="Seconds">
  <type name="time" primitiveType="int64" presence="optional"/>
  <type name="unit" primitiveType="uint8" presence="constant" valueRef="TimeUnit.SECOND"/>
</composite>
<enum name="Letter" encodingType="char">
  <validValue name="A_LETTER">A</validValue><validValue name="ZERO_SIGN">0</validValue>
</enum>
<type name="UInt8Null0" primitiveType="uint8" presence="optional" nullValue="0"/>
<enum name="Small" encodingType="UInt8Null0">
  <validValue name="ONE">1</validValue><validValue name="TWO">2</validValue>
</enum>
<enum name="Wide" encodingType="uint16">
  <validValue name="LOW">1</validValue><validValue name="HIGH">60000</validValue>
</enum>
<set name="Flags" encodingType="uint16">
  <choice name="First">0</choice><choice name="Last">15</choice>
</set>
<type name="Day16" primitiveType="uint16" semanticType="LocalMktDate"/>
<type name="Day32" primitiveType="int32" semanticType="LocalMktDate" presence="optional"
      nullValue="0"/>
<type name="Must32" primitiveType="int32" semanticType="LocalMktDate"/>
<type name="Text5" primitiveType="char" length="5" characterEncoding="ASCII"/>
<type name="Text3Optional" primitiveType="char" length="3" presence="optional"/>
<type name="Utf8Text" primitiveType="uint8" length="8" characterEncoding="UTF-8"/>
<type name="Blob4" primitiveType="uint8" length="4"/>
<type name="Three" primitiveType="int16" length="3"/>
<type name="Pair64" primitiveType="uint64" length="2"/>
<type name="Real" primitiveType="double" presence="optional"/>
<type name="Version" primitiveType="char" length="4" presence="constant">v1.0</type>
<composite name="Record">
  <type name="prefix" primitiveType="uint16" presence="optional" nullValue="0"/>
  <type name="document" primitiveType="uint32" presence="optional" nullValue="0" offset="4"/>
  <ref name="letter" type="Letter"/>
  <ref name="price" type="Decimal4"/>
</composite>
<composite name="Lonely"><type name="only" primitiveType="int32"/></composite>
<composite name="Text8">
  <type name="length" primitiveType="uint8" maxValue="40"/>
  <type name="varData" primitiveType="char" length="0" characterEncoding="ASCII"/>
</composite>
<composite name="Text16">
  <type name="length" primitiveType="uint16"/>
  <type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/>
</composite>
<composite name="Raw16">
  <type name="length" primitiveType="uint16"/>
  <type name="varData" primitiveType="uint8" length="0"/>
</composite>
"""
FIELD_TYPES = [
    *INTEGERS, "float", "double", "char", "Decimal4", "Decimal8Required", "Decimal32", "Nanos",
    "Seconds", "Letter", "Small", "Wide", "Flags", "Day16", "Day32", "Must32", "Text5",
    "Text3Optional", "Utf8Text", "Blob4", "Three", "Pair64", "Real", "Version", "Record", "Lonely",
]  # fmt: skip


@st.composite
def block_xml(draw, depth, names, *, group=False):
    """Fields (some with gaps, some optional, some newer), groups and data of a block."""
    parts = []
    since = 0
    if group or draw(st.booleans()):
        parts.append(f'<field name="f{next(names)}" id="1" type="uint8"/>')
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(FIELD_TYPES))
        since = max(since, draw(st.sampled_from([0, 0, 0, 1, 2])))
        presence = draw(st.sampled_from(["", "", ' presence="optional"']))
        presence = "" if kind == "Version" else presence
        parts.append(
            f'<field name="f{next(names)}" id="1" type="{kind}"{presence} sinceVersion="{since}"/>'
        )
    since = 0
    if depth:
        for _ in range(draw(st.integers(0, 2))):
            since = max(since, draw(st.sampled_from([0, 0, 2])))
            inner = draw(block_xml(depth - 1, names, group=True))
            parts.append(
                f'<group name="g{next(names)}" id="2" sinceVersion="{since}">{inner}</group>'
            )
    for _ in range(draw(st.integers(0, 2)) if not since else 0):
        kind = draw(st.sampled_from(["Text8", "Text16", "Raw16"]))
        parts.append(f'<data name="d{next(names)}" id="3" type="{kind}"/>')
    return "".join(parts)


@st.composite
def schema_xml(draw):
    """A random schema of version 2, in either byte order."""
    order = draw(st.sampled_from(["littleEndian", "littleEndian", "bigEndian"]))
    names = iter(range(1000))
    padding = draw(st.sampled_from(["", "", ' blockLength="400"']))
    inner = draw(block_xml(2, names))
    types = TYPES.format(n=draw(st.sampled_from(["uint8", "uint16"])))
    return (
        f'<messageSchema package="random" id="7" version="2" byteOrder="{order}">'
        f'<types>{types}</types><message name="M" id="1"{padding}>{inner}</message>'
        "</messageSchema>"
    ).encode()


def _day(number):
    """The date of a day since 1970; the number itself if there is none."""
    if MIN_DAY <= number <= MAX_DAY:
        return date(1970, 1, 1) + timedelta(days=number)
    return number


def value_of(reading):
    """A strategy of values that a reading can hold."""
    match reading.kind:
        case ValueKind.RECORD:
            value = st.fixed_dictionaries({m.name: value_of(m) for m in reading.members})
        case ValueKind.ENUM:
            names = [member.name for member in reading.enum.members]
            low, high = reading.primitive.minimum, reading.primitive.maximum
            known = {member.value for member in reading.enum.members}
            strange = st.integers(low, high).filter(
                lambda number: number not in known and number != reading.null
            )
            value = st.one_of(st.sampled_from(names), strange)
        case ValueKind.SET:
            value = st.integers(0, reading.primitive.maximum)
        case ValueKind.DECIMAL:
            high = min(MAX_MANTISSA, reading.primitive.maximum)
            value = (
                st.integers(-high, high)
                .filter(lambda number: number != reading.null)
                .map(lambda number: Decimal(number).scaleb(-reading.scale))
            )
        case ValueKind.DATE:
            value = (
                st.integers(reading.primitive.minimum, reading.primitive.maximum)
                .filter(lambda number: number != reading.null)
                .map(_day)
            )
        case ValueKind.TEXT:
            alphabet = st.characters(codec="ascii", exclude_characters="\0")
            value = st.text(alphabet, min_size=reading.null is not None, max_size=reading.size)
            if reading.encoding == "utf-8":
                value = value | st.sampled_from(["ação", "€uro"])
        case ValueKind.BYTES:
            value = st.binary(min_size=reading.size, max_size=reading.size)
        case ValueKind.NUMBERS:
            high = reading.primitive.maximum
            value = st.tuples(*[st.integers(reading.primitive.minimum, high)] * reading.length)
        case ValueKind.FLOAT:
            value = st.floats(width=8 * reading.primitive.size, allow_nan=False)
        case _:
            high = reading.primitive.maximum
            value = st.integers(reading.primitive.minimum, high).filter(
                lambda number: number != reading.null
            )
    if not reading.required or reading.kind in (ValueKind.ENUM, ValueKind.DECIMAL):
        nullable = reading.null is not None or reading.kind is ValueKind.RECORD
        if nullable and reading.kind is not ValueKind.RECORD:
            value = st.none() | value
    return value


def values_of(block, version=None):
    """A strategy of values that a message or group can hold."""
    parts = {reading.name: value_of(reading) for reading in readings(block)}
    for group in block.groups:
        parts[group.name] = st.lists(values_of(group), max_size=3)
    for data in block.data:
        limit = min(data.length.maximum, 60)
        if data.character_encoding is None:
            parts[data.name] = st.none() | st.binary(min_size=1, max_size=limit)
        else:
            alphabet = st.characters(codec="ascii")
            parts[data.name] = st.none() | st.text(alphabet, min_size=1, max_size=limit)
    return st.fixed_dictionaries(parts)


def normal(value):
    """Records of only nulls are null; NaN equals itself."""
    if isinstance(value, dict):
        return {name: normal(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [normal(part) for part in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def shown(block, values):
    """A decoded message as a row of columns shows it."""
    values = fitted(block, values)
    row = {}
    for reading in readings(block):
        row[reading.column] = _shown(reading, values[reading.name])
    for group in block.groups:
        row[snake_case(group.name)] = [shown(group, entry) for entry in values[group.name]]
    for data in block.data:
        row[snake_case(data.name)] = values[data.name]
    return normal(row)


def beyond(block, values):
    """The columns that cannot hold the values of a message."""
    for reading in readings(block):
        yield from _beyond(reading, values[reading.name])
    for group in block.groups:
        for entry in values[group.name]:
            yield from beyond(group, entry)


def _beyond(reading, value):
    if value is not None and reading.kind is ValueKind.RECORD:
        for member in reading.members:
            yield from _beyond(member, value[member.name])
    elif value is not None and not fits_column(reading, value):
        yield reading.column


def fitted(block, values):
    """The values of a message, null where columns cannot hold them."""
    kept = {reading.name: _fitted(reading, values[reading.name]) for reading in readings(block)}
    for group in block.groups:
        kept[group.name] = [fitted(group, entry) for entry in values[group.name]]
    return {name: kept.get(name, value) for name, value in values.items()}


def _fitted(reading, value):
    if value is None:
        return None
    if reading.kind is ValueKind.RECORD:
        members = {m.name: _fitted(m, value[m.name]) for m in reading.members}
        return None if all(each is None for each in members.values()) else members
    return value if fits_column(reading, value) else None


def _shown(reading, value):
    if value is None:
        return None
    if reading.kind is ValueKind.RECORD:
        return {m.column: _shown(m, value[m.name]) for m in reading.members}
    if reading.kind is ValueKind.ENUM:
        return str(value)
    if reading.kind is ValueKind.FLOAT and reading.primitive.size == 4:
        return float(np.float32(value))
    return value


def compare_with_codec(schema, message, version, bodies, block_lengths=None):
    """Kernels and codec must accept the same messages and give the same values.

    Kernels leave out, besides, what the codec reads and columns cannot hold; where the field is
    optional, its value alone, which they count.
    ``bodies`` are messages without their headers. Returns how many were decoded.
    """
    codec = MessageCodec(schema, message)
    buffer = b"".join(bodies) + bytes(8)
    ends = np.cumsum([len(body) for body in bodies]).astype(np.int64)
    positions = ends - np.array([len(body) for body in bodies], np.int64)
    if block_lengths is None:
        block_lengths = [message.block_length] * len(bodies)
    expected, accepted, withheld = [], [], []
    for index, (start, end) in enumerate(zip(positions.tolist(), ends.tolist(), strict=True)):
        try:
            decoded = codec.decode_body(buffer, start, block_lengths[index], version, end)
        except DecodeError:
            continue
        if beyond_columns(message, decoded.values) is not None:
            continue
        accepted.append(index)
        withheld.append(Counter(beyond(message, decoded.values)))
        expected.append(shown(message, decoded.values))
    columns = ColumnDecoder(schema, message, version).decode(
        np.frombuffer(buffer, np.uint8), positions, np.array(block_lengths, np.int64), ends
    )
    columns.batch.validate(full=True)
    kept = list(range(len(bodies))) if columns.kept is None else columns.kept.tolist()
    assert kept == accepted
    assert sorted(kept + columns.rejected.tolist()) == list(range(len(bodies)))
    assert columns.count == len(accepted)
    assert columns.withheld == sum(withheld, Counter())
    rows = [normal(row) for row in columns.batch.to_pylist()] or [{}] * columns.count
    for row, wanted in zip(rows, expected, strict=True):
        assert row == wanted, message.name
    return len(accepted)


def plausible_body(rng: random.Random, block, *, wild: float) -> bytes:
    """Bytes shaped like a block with its parts; each number is small, null or anything."""
    body = bytearray(block.block_length)
    for reading in readings(block):
        for leaf in reading.leaves:
            body[leaf.offset : leaf.end] = _plausible(rng, leaf, wild)
    for group in block.groups:
        count = rng.choice([0, 0, 1, 2, 3])
        header = bytearray(group.dimension.size)
        _put(header, group.dimension.block_length, group.block_length)
        _put(header, group.dimension.num_in_group, count)
        body += header
        for _ in range(count):
            body += plausible_body(rng, group, wild=wild)
    for data in block.data:
        text = rng.choice([b"", b"texto", "ação".encode(), b"\xff\xfe", rng.randbytes(7)])
        header = bytearray(data.header_size)
        _put(header, data.length, len(text))
        body += bytes(header) + text
    return bytes(body)


def _put(header, field, number):
    size = field.primitive.size
    header[field.offset : field.offset + size] = number.to_bytes(size, "little")


def _plausible(rng, leaf, wild):
    if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
        return rng.choice([b"", b"PETR4", b"A", rng.randbytes(leaf.size)])[: leaf.size].ljust(
            leaf.size, b"\0"
        )
    if rng.random() < wild or leaf.primitive.nature is Nature.FLOAT:
        return rng.randbytes(leaf.size)
    size = leaf.primitive.size
    choices = [0, 1, 2, 17, rng.randrange(256), rng.randrange(1 << (8 * size - 5))]
    if leaf.null is not None:
        choices.append(int(leaf.null))
    if leaf.enum is not None:
        choices.append(rng.choice(leaf.enum.members).value)
    if leaf.kind is ValueKind.DECIMAL:
        choices = [*choices[:5], -1, 123400, MAX_MANTISSA, -MAX_MANTISSA, int(leaf.null or 0)]
    mask = (1 << (8 * size)) - 1
    return b"".join(
        (rng.choice(choices) & mask).to_bytes(size, "little") for _ in range(leaf.length)
    )
