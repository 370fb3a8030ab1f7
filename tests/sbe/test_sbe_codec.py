"""The message codec: what encoding refuses, how other versions are read, how values appear."""

from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

from pregao.errors import DecodeError, EncodeError
from pregao.sbe import _kernels, _numpy_fallback
from pregao.sbe.codec import HeaderCodec, MessageHeader, SchemaCodec
from pregao.sbe.columns import ColumnDecoder
from pregao.sbe.model import snake_case
from pregao.sbe.packer import FieldSource
from pregao.sbe.row_decoder import RowDecoder
from pregao.sbe.value_specs import beyond_columns
from pregao.sbe.xml import schema_from_bytes
from pregao.schemas.bundle import bundled
from tests.architecture.kernel_pairs import use_fallback
from tests.sbe.support import TYPES, compare_with_codec

SCHEMA = schema_from_bytes(
    f"""<messageSchema id="7" version="2"><types>{TYPES.format(n="uint8")}
    <type name="Tight" primitiveType="int16" minValue="-5" maxValue="5"/></types>
    <message name="M" id="1" blockLength="140">
      <field name="small" id="1" type="uint8"/>
      <field name="tight" id="2" type="Tight" presence="optional"/>
      <field name="big" id="3" type="uint64" presence="optional"/>
      <field name="price" id="4" type="Decimal4"/>
      <field name="sure" id="5" type="Decimal8Required" presence="optional"/>
      <field name="text" id="6" type="Text5" presence="optional"/>
      <field name="day" id="7" type="Day32"/>
      <field name="letter" id="8" type="Letter" presence="optional"/>
      <field name="flags" id="9" type="Flags"/>
      <field name="record" id="10" type="Record" presence="optional"/>
      <field name="blob" id="11" type="Blob4" presence="optional"/>
      <field name="version" id="13" type="Version"/>
      <field name="key" id="15" type="uint64"/>
      <field name="must" id="16" type="Must32"/>
      <field name="late" id="14" type="uint16" sinceVersion="2" presence="optional"/>
      <group name="entries" id="20"><field name="n" id="21" type="uint8"/></group>
      <data name="memo" id="22" type="Text8"/>
    </message></messageSchema>""".encode()
)
CODEC = SchemaCodec(SCHEMA)
SOUND = {"small": 1, "flags": 0, "key": 1, "must": date(2026, 5, 21)}

REFUSED = [
    ({"nope": 1}, "nope: no such field in M"),
    ({"small": None}, "small: cannot be null"),
    ({"small": 256}, "small: 256 is not from 0 to 255"),
    ({"small": -1}, "small: -1 is not from 0 to 255"),
    ({"small": "1"}, "small: '1' is not an integer"),
    ({"small": True}, "small: True is not an integer"),
    ({"tight": 6}, "tight: 6 is not from -5 to 5"),
    ({"big": 2**64}, "big: 18446744073709551616 is not from 0 to 18446744073709551615"),
    ({"big": 2**64 - 1}, "big: 18446744073709551615 means null in this field; use None for null"),
    ({"big": -1}, "big: -1 is not from 0 to 18446744073709551615"),
    ({"price": Decimal("0.00001")}, "price: 0.00001 has more than 4 decimal places"),
    ({"price": Decimal(10) ** 15}, "price: 1000000000000000 is out of range"),
    ({"price": Decimal("NaN")}, "price: Decimal('NaN') is not a decimal"),
    ({"price": Decimal("Infinity")}, "price: Decimal('Infinity') is not a decimal"),
    ({"price": Decimal("sNaN")}, "price: Decimal('sNaN') is not a decimal"),
    ({"price": Decimal("1E+999999")}, "price: 1E+999999 has too many digits"),
    ({"price": Decimal("1." + "0" * 60 + "1")}, "01 has too many digits"),
    ({"price": 1.5}, "price: 1.5 is not a decimal"),
    ({"price": True}, "price: True is not a decimal"),
    ({"price": "abc"}, "price: 'abc' is not a decimal"),
    ({"text": "sixsix"}, "text: 'sixsix' is longer than 5 bytes"),
    ({"text": "a\0b"}, "text: a NUL character would end the text"),
    ({"text": "é"}, "text: 'é' has characters that cannot be written"),
    ({"text": b"abc"}, "text: b'abc' is not text"),
    ({"text": ["abc"]}, "text: ['abc'] is not text"),
    ({"day": date(1970, 1, 1)}, "day: 1970-01-01 means null in this field"),
    ({"day": "2020-01-01"}, "day: '2020-01-01' is not a date"),
    ({"letter": "B"}, "letter: 'B' is not one of A_LETTER, ZERO_SIGN"),
    ({"letter": 0}, "letter: 0 means null in this field"),
    ({"letter": ["A_LETTER"]}, "letter: ['A_LETTER'] is not a value of this enumeration"),
    ({"letter": True}, "letter: True is not a value of this enumeration"),
    ({"letter": 300}, "letter: 300 is not a value of this enumeration"),
    ({"flags": ["Nope"]}, "flags: 'Nope' is not one of First, Last"),
    ({"flags": 65536}, "flags: 65536 is not from 0 to 65535"),
    ({"flags": "First"}, "flags: 'First' is neither a number nor names of flags"),
    ({"record": {"nope": 1}}, "record.nope: no such member"),
    ({"record": {"document": -1}}, "record.document: -1 is not from"),
    ({"record": 5}, "record: 5 is not a record of"),
    ({"blob": b"abc"}, "blob: b'abc' is not 4 bytes"),
    ({"version": "v2.0"}, "version: must be the constant 'v1.0', was 'v2.0'"),
    ({"entries": [{"n": 1}] * 256}, "entries: 256 entries exceed the maximum of 255"),
    ({"entries": [{}]}, "entries[0].n: a value is required"),
    ({"entries": [{"n": 1}, {"n": 1, "m": 2}]}, "entries[1].m: no such field in entries"),
    ({"entries": {"n": 1}}, "is not a list of entries"),
    ({"entries": [5]}, "entries[0]: 5 is not named values"),
    ({"memo": "x" * 41}, "memo: 41 bytes exceed the maximum of 40"),
]


@pytest.mark.parametrize(("wrong", "reason"), REFUSED)
def test_encoding_refuses_and_names_the_field(wrong, reason):
    with pytest.raises(EncodeError) as caught:
        CODEC.encode("M", SOUND | wrong)
    assert reason in str(caught.value)


def test_encoding_refuses_a_missing_value_and_an_unknown_message():
    with pytest.raises(EncodeError, match="small: a value is required"):
        CODEC.encode("M", {"flags": 0})
    with pytest.raises(EncodeError, match="N: no such message in version 2"):
        CODEC.encode("N", {})


def test_a_constant_may_be_given_if_it_is_right():
    encoded = CODEC.encode("M", SOUND | {"version": "v1.0"})
    assert encoded == CODEC.encode("M", SOUND)


def test_001_4_1_a_wrong_constant_is_refused():
    with pytest.raises(EncodeError, match="version"):
        CODEC.encode("M", SOUND | {"version": "v1.1"})


def test_values_can_be_given_in_the_ways_people_write_them():
    plain = CODEC.encode("M", SOUND | {"price": Decimal("12.5"), "flags": 0x8001})
    assert CODEC.encode("M", SOUND | {"price": "12.5", "flags": {"First", "Last"}}) == plain
    assert CODEC.decode(plain)["flags"] == 0x8001
    assert CODEC.encode("M", SOUND | {"price": 12}) == CODEC.encode("M", SOUND | {"price": "12.0"})


def test_unknown_enum_values_and_bits_are_kept():
    values = SOUND | {"letter": ord("Z"), "flags": 0x0FF0}
    decoded = CODEC.decode(CODEC.encode("M", values))
    assert decoded["letter"] == ord("Z")
    assert decoded["flags"] == 0x0FF0
    assert SCHEMA.types["Flags"].names(0x8003) == ["First", "1", "Last"]


def test_a_shorter_block_leaves_later_fields_null():
    message = SCHEMA.by_name["M"]
    encoded = CODEC.encode("M", SOUND | {"price": 1, "late": 7, "entries": [{"n": 9}]})
    body = encoded[8:]
    short = body[:11] + body[message.block_length :]
    decoded = CODEC.codec(1).decode_body(short, 0, 11, 2, len(short))
    assert decoded["small"] == 1
    assert decoded["price"] is None
    assert decoded["late"] is None
    assert decoded["entries"] == [{"n": 9}]


def test_a_longer_block_and_unknown_parts_at_the_end_are_skipped():
    encoded = CODEC.encode("M", SOUND | {"memo": "hi", "entries": [{"n": 9}]})
    length = SCHEMA.by_name["M"].block_length
    body = encoded[8 : 8 + length] + b"\xff" * 5 + encoded[8 + length :] + b"later parts"
    decoded = CODEC.codec(1).decode_body(body, 0, length + 5, 9, len(body))
    assert decoded["memo"] == "hi"
    assert decoded["entries"] == [{"n": 9}]
    assert decoded.end == len(body) - len(b"later parts")


def test_a_field_that_came_later_is_null_for_an_older_sender():
    body = CODEC.encode("M", SOUND | {"late": 7})[8:]
    codec = CODEC.codec(1)
    assert codec.decode_body(body, 0, 120, 2, len(body))["late"] == 7
    assert codec.decode_body(body, 0, 120, 1, len(body))["late"] is None


def test_bytes_of_an_older_sender_at_a_later_fields_offset_do_not_matter():
    schema = schema_from_bytes(
        f"""<messageSchema id="7" version="2"><types>{TYPES.format(n="uint8")}</types>
        <message name="M" id="1">
          <field name="small" id="1" type="uint8"/>
          <field name="price" id="2" type="Decimal4" sinceVersion="2"/>
          <field name="pair" id="3" type="Pair64" sinceVersion="2"/>
          <field name="text" id="4" type="Text5" presence="optional" sinceVersion="2"/>
        </message></messageSchema>""".encode()
    )
    message = schema.by_name["M"]
    codec = SchemaCodec(schema).codec(1)
    body = b"\x05" + b"\x81" * (message.block_length - 1)
    with pytest.raises(DecodeError, match="price"):
        codec.decode_body(body, 0, len(body), 2, len(body))
    values = codec.decode_body(body, 0, len(body), 1, len(body)).values
    assert values == {"small": 5, "price": None, "pair": None, "text": None}


def test_decimals_out_of_range_are_decode_errors():
    with pytest.raises(DecodeError, match="price: a mantissa of more than 18 digits"):
        CODEC.decode(with_bytes("price", (10**18).to_bytes(8, "little")))


def with_bytes(field, raw):
    """A valid message with some bytes instead of a field."""
    offset = next(f.offset for f in SCHEMA.by_name["M"].fields if f.name == field)
    encoded = bytearray(CODEC.encode("M", SOUND))
    encoded[8 + offset : 8 + offset + len(raw)] = raw
    return bytes(encoded)


def test_an_optional_day_that_is_no_date_is_its_number_and_the_rest_is_read():
    encoded = with_bytes("day", (2932897).to_bytes(4, "little"))
    decoded = CODEC.decode(encoded)
    assert decoded["day"] == 2932897
    assert decoded["small"] == 1
    assert CODEC.encode("M", decoded.values) == encoded
    assert beyond_columns(decoded.message, decoded.values) is None
    with pytest.raises(EncodeError, match="day: 5 is not a date"):
        CODEC.encode("M", SOUND | {"day": 5})


DAYS = {
    0: date(1970, 1, 1),
    -1: date(1969, 12, 31),
    -719162: date(1, 1, 1),
    -719163: -719163,
    2932896: date(9999, 12, 31),
    2932897: 2932897,
    -(2**31): -(2**31),
    2**31 - 1: 2**31 - 1,
}
"""Values of a required date by its days since 1970, which has no null value."""


def bodies_of_days():
    return [with_bytes("must", day.to_bytes(4, "little", signed=True))[8:] for day in DAYS]


@pytest.mark.parametrize("day", DAYS)
def test_a_required_day_that_is_no_date_is_its_number_and_the_rest_is_read(day):
    encoded = with_bytes("must", day.to_bytes(4, "little", signed=True))
    decoded = CODEC.decode(encoded)
    assert (decoded["must"], type(decoded["must"])) == (DAYS[day], type(DAYS[day]))
    assert (decoded["small"], decoded["key"]) == (1, 1)
    assert CODEC.encode("M", decoded.values) == encoded
    assert beyond_columns(decoded.message, decoded.values) is None


@pytest.mark.parametrize("day", [0, -1, 2932896, 2**31, -(2**31) - 1, None, True])
def test_a_number_that_is_a_date_or_has_more_than_32_bits_is_refused_as_a_day(day):
    with pytest.raises(EncodeError, match="must: "):
        CODEC.encode("M", SOUND | {"must": day})


@pytest.mark.parametrize("fallback", [False, True])
def test_columns_have_null_for_a_required_day_that_is_no_date(fallback, monkeypatch):
    if fallback:
        use_fallback(monkeypatch, _kernels, _numpy_fallback)
    message = SCHEMA.by_name["M"]
    bodies = bodies_of_days()
    assert compare_with_codec(SCHEMA, message, 2, bodies) == len(DAYS)
    columns = decoded_by(ColumnDecoder, bodies)
    assert (columns.rejected.tolist(), columns.withheld) == ([], {"must": 4})
    dates = [day if isinstance(day, date) else None for day in DAYS.values()]
    assert columns.batch["must"].to_pylist() == dates
    assert columns.batch["key"].to_pylist() == [1] * len(DAYS)
    end = message.block_length  # of another sender, whose blocks end before that field
    shorter = [body[:68] + body[end:] for body in bodies]
    lengths = [end] * len(DAYS) + [68] * len(DAYS)
    assert compare_with_codec(SCHEMA, message, 2, bodies + shorter, lengths) == 2 * len(DAYS)


def test_rows_have_the_number_of_a_required_day_that_is_no_date():
    rows = decoded_by(RowDecoder, bodies_of_days())
    assert rows.rejected.tolist() == []
    assert [row["must"] for row in rows.batch] == list(DAYS.values())


def decoded_by(decoder, bodies):
    """Messages of template M, decoded by one of the decoders of many messages."""
    message = SCHEMA.by_name["M"]
    sizes = np.array([len(body) for body in bodies])
    ends = np.cumsum(sizes).astype(np.int64)
    lengths = np.full(len(bodies), message.block_length)
    whole = np.frombuffer(b"".join(bodies) + bytes(8), np.uint8)
    return decoder(SCHEMA, message, 2).decode(whole, ends - sizes, lengths, ends)


def test_boundary_values_are_values():
    values = SOUND | {
        "big": 2**64 - 2,
        "price": Decimal(10**18 - 1).scaleb(-4),
        "day": date(9999, 12, 31),
    }
    decoded = CODEC.decode(CODEC.encode("M", values))
    assert {name: decoded[name] for name in values} == values
    assert CODEC.decode(CODEC.encode("M", SOUND))["big"] is None


def test_messages_carry_64_bits_and_columns_report_that_they_do_not():
    values = SOUND | {"key": 2**63}
    decoded = CODEC.decode(CODEC.encode("M", values))
    assert decoded["key"] == 2**63
    reason = beyond_columns(decoded.message, decoded.values)
    assert reason == "key: a number above 9223372036854775807, the maximum of a column"
    fits = CODEC.decode(CODEC.encode("M", SOUND | {"key": 2**63 - 1}))
    assert beyond_columns(fits.message, fits.values) is None


def test_what_an_optional_column_cannot_hold_is_null_there_and_counted():
    encoded = [
        CODEC.encode("M", SOUND | {"big": 7}),
        CODEC.encode("M", SOUND | {"big": 2**63}),
        with_bytes("day", (2932897).to_bytes(4, "little")),
        CODEC.encode("M", SOUND | {"key": 2**63, "big": 2**63}),
    ]
    bodies = [each[8:] for each in encoded]
    assert compare_with_codec(SCHEMA, SCHEMA.by_name["M"], 2, bodies) == 3
    columns = decoded_by(ColumnDecoder, bodies)
    assert columns.rejected.tolist() == [3]
    assert columns.withheld == {"big": 1, "day": 1}  # what is rejected is not counted
    assert columns.batch["big"].to_pylist() == [7, None, None]
    assert columns.batch["small"].to_pylist() == [1, 1, 1]


def test_decode_errors_of_headers():
    encoded = CODEC.encode("M", SOUND)
    with pytest.raises(DecodeError, match="too short for a message header"):
        CODEC.decode(encoded[:7])
    with pytest.raises(DecodeError, match="schema id 2 is not 7"):
        CODEC.decode(encoded[:4] + b"\x02\0" + encoded[6:])
    with pytest.raises(DecodeError, match="template 9 is not known"):
        CODEC.decode(encoded[:2] + b"\x09\0" + encoded[4:])


def test_a_group_of_many_empty_entries_is_refused():
    """A few bytes must not make millions of entries."""
    schema = schema_from_bytes(
        f"""<messageSchema id="7" version="2"><types>{TYPES.format(n="uint32")}</types>
        <message name="M" id="1"><group name="g" id="1"/></message></messageSchema>""".encode()
    )
    codec = SchemaCodec(schema)
    header = codec.codec(1).header
    with pytest.raises(DecodeError, match="4294967295 entries of 0 bytes run past the end"):
        codec.decode(header + b"\0\0\xff\xff\xff\xff")


def test_a_header_of_another_order_and_size():
    schema = schema_from_bytes(
        b"""<messageSchema id="9" version="4" headerType="head" byteOrder="bigEndian"><types>
        <composite name="head"><type name="version" primitiveType="uint8"/>
        <type name="schemaId" primitiveType="uint16" offset="2"/>
        <type name="templateId" primitiveType="uint32"/>
        <type name="blockLength" primitiveType="uint16"/></composite></types>
        <message name="M" id="300"><field name="a" id="1" type="int16"/></message>
        </messageSchema>"""
    )
    encoded = SchemaCodec(schema).encode("M", {"a": -2})
    assert encoded == bytes.fromhex("04 00 0009 0000012c 0002 fffe")
    assert SchemaCodec(schema).decode(encoded).values == {"a": -2}
    assert HeaderCodec(schema).decode(encoded) == MessageHeader(2, 300, 9, 4)


def test_packers_write_what_the_codec_writes():
    schema = bundled("umdf", 16)
    codec = SchemaCodec(schema).codec(51)
    pack = codec.packer(
        "securityID", "matchEventIndicator", "mDEntryType", "mDEntrySize", "secondaryOrderID",
        "transactTime", "rptSeq", "mDEntryPx",
    )  # fmt: skip
    values = {
        "securityID": 5,
        "matchEventIndicator": 0x80,
        "mDEntryType": "OFFER",
        "mDEntrySize": 300,
        "secondaryOrderID": 77,
        "transactTime": 123,
        "rptSeq": 9,
        "mDEntryPx": None,
    }
    assert pack(5, 0x80, ord("1"), 300, 77, 123, 9, None) == codec.encode(values)
    with pytest.raises(EncodeError, match="price: no such field"):
        codec.packer("price")
    with pytest.raises(EncodeError, match="securityID"):
        pack(-5, 0, 0, 0, 0, 0, 0, 0)


def test_packers_take_attributes_of_an_object_and_fixed_numbers():
    codec = SchemaCodec(bundled("umdf", 16)).codec(51)
    given = ("securityID", "mDEntryType", "mDEntrySize", "mDEntryPx", "rptSeq")
    order = SimpleNamespace(number=5, lots=3, price=None)
    pack = codec.packer(
        "rptSeq",
        sources={
            "securityID": FieldSource("number"),
            "mDEntrySize": FieldSource("lots", lambda lots: 100 * lots),
            "mDEntryPx": FieldSource("price"),
        },
        fixed={"mDEntryType": ord("1")},
    )
    assert pack(order, 9) == codec.packer(*given)(5, ord("1"), 300, None, 9)
    order.number = -5
    with pytest.raises(EncodeError, match="securityID"):
        pack(order, 9)
    with pytest.raises(EncodeError, match="price: no such field"):
        codec.packer(fixed={"price": 1})
    with pytest.raises(EncodeError, match="not the name of an attribute"):
        codec.packer(sources={"rptSeq": FieldSource("a.b")})


def test_packers_of_a_group_write_what_the_codec_writes():
    codec = SchemaCodec(bundled("umdf", 16)).codec(71)
    head = codec.packer("securityID")
    names = ("mDEntryType", "mDEntryPx", "mDEntrySize", "secondaryOrderID", "matchEventIndicator")
    header, entry = codec.group_packers("noMDEntries", *names)
    entries = [
        dict(zip(names, ("BID", Decimal("1.2345"), 300, 77, 0), strict=True)),
        dict(zip(names, ("OFFER", None, 100, 78, 0x10), strict=True)),
    ]
    packed = entry(ord("0"), 12345, 300, 77, 0) + entry(ord("1"), None, 100, 78, 0x10)
    values = {"securityID": 5, "noMDEntries": entries}
    assert head(5) + header(2) + packed == codec.encode(values)
    with pytest.raises(EncodeError, match="noMDEntries: 256 entries exceed "):
        header(256)
    with pytest.raises(EncodeError, match="noOrders: no such group in Snapshot"):
        codec.group_packers("noOrders")
    with pytest.raises(EncodeError, match="price: no such field"):
        codec.group_packers("noMDEntries", "price")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("mDEntryPx", "md_entry_px"),
        ("securityID", "security_id"),
        ("uRLLink", "url_link"),
        ("noMDEntries", "no_md_entries"),
        ("rptSeq", "rpt_seq"),
        ("mMProtectionReset", "mm_protection_reset"),
        ("clOrdID", "cl_ord_id"),
        ("isinNumber", "isin_number"),
        ("mDUpdateAction", "md_update_action"),
        ("Order_MBO_50", "order_mbo_50"),
        ("tradSesOpenTime", "trad_ses_open_time"),
    ],
)
def test_column_names(name, column):
    assert snake_case(name) == column


ORDER_FIELDS = (
    "businessHeader.msgSeqNum", "clOrdID", "securityID", "side", "orderQty", "price", "stopPx",
    "senderLocation", "investorID.document", "memo",
)  # fmt: skip


def test_packers_and_unpackers_know_members_of_records_and_data():
    codec = SchemaCodec(bundled("entrypoint", 6)).codec(102)
    numbers = (7, 2**64 - 1, 9, ord("1"), 100, 123400, None, b"SAO PAULO", None, b"memo")
    packed = codec.packer(*ORDER_FIELDS)(*numbers)
    size, block_length = len(codec.header), codec.message.block_length
    values = codec.decode_body(packed, size, block_length, 6, len(packed)).values
    assert values["businessHeader"]["msgSeqNum"] == 7
    assert (values["clOrdID"], values["side"], values["price"]) == (
        2**64 - 1,
        "BUY",
        Decimal("12.34"),
    )
    assert (values["memo"], values["deskID"], values["stopPx"]) == ("memo", None, None)
    unpack = codec.unpacker(*ORDER_FIELDS)
    assert unpack(packed, size, block_length, len(packed)) == numbers
    assert codec.unpacker("deskID")(packed, size, block_length, len(packed)) == (None,)
    with pytest.raises(DecodeError, match="a block of 135 bytes runs past the end"):
        unpack(packed, size, block_length, 100)
    with pytest.raises(DecodeError, match="a block of 100 bytes is too short"):
        unpack(packed, size, 100, len(packed))
    with pytest.raises(DecodeError, match="memo: 4 bytes run past the end"):
        unpack(packed, size, block_length, len(packed) - 1)
    with pytest.raises(EncodeError, match="price8: no such field"):
        codec.unpacker("price8")
