"""The documents' printed bytes, each in a test named after its section."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from pregao.clock import SECOND
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.model import PRIMITIVES
from pregao.sbe.xml import schema_from_bytes
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketDecoder, decode_header, frame, frames

PACKET_HEADER = bytes.fromhex("37 00 01 00 b1 68 de 3a 00 c8 98 65 f4 ac eb 15")

HEADERS = """
<composite name="messageHeader">
  <type name="blockLength" primitiveType="uint16"/><type name="templateId" primitiveType="uint16"/>
  <type name="schemaId" primitiveType="uint16"/><type name="version" primitiveType="uint16"/>
</composite>
<composite name="GroupSizeEncoding">
  <type name="blockLength" primitiveType="uint16"/><type name="numInGroup" primitiveType="uint8"/>
</composite>
"""


def test_000_6_5_5_2_packet_header():
    header = decode_header(PACKET_HEADER)
    assert header == (55, 1, 987654321, 1579546260000000000)
    seconds, nanos = divmod(header.sending_time_ns, SECOND)
    assert datetime.fromtimestamp(seconds, UTC) == datetime(2020, 1, 20, 18, 51, tzinfo=UTC)
    assert nanos == 0


def test_000_6_5_6_1_sequence_message():
    schema = schema_from_bytes(
        f"""<messageSchema id="2" version="0"><types>{HEADERS}
        <enum name="MessageType" encodingType="char">
          <validValue name="Sequence">0</validValue></enum>
        <enum name="ApplVerID" encodingType="uint8">
          <validValue name="FIX50SP2">9</validValue></enum>
        <type name="SeqNum" primitiveType="uint32"/></types>
        <message name="Sequence_2" id="2">
          <field name="messageType" id="35" type="MessageType" presence="constant"
                 valueRef="MessageType.Sequence"/>
          <field name="applVerID" id="1128" type="ApplVerID" presence="constant"
                 valueRef="ApplVerID.FIX50SP2"/>
          <field name="nextSeqNo" id="35526" type="SeqNum"/>
        </message></messageSchema>""".encode()
    )
    printed = bytes.fromhex("10 00 50 EB 04 00 02 00 02 00 00 00 E2 C6 9E 01")
    codec = SchemaCodec(schema)
    assert frame(codec.encode("Sequence_2", {"nextSeqNo": 27182818})) == printed
    assert codec.decode(printed, 4).values == {"nextSeqNo": 27182818}


def test_000_6_5_6_2_message_with_a_repeating_group():
    schema = schema_from_bytes(
        f"""<messageSchema id="1" version="0"><types>{HEADERS}
        <enum name="MessageType" encodingType="char">
          <validValue name="SecurityDefinition">d</validValue></enum>
        <type name="Symbol6" primitiveType="char" length="6" characterEncoding="ASCII"/>
        <type name="Quantity" primitiveType="uint32"/>
        <composite name="Percentage8">
          <type name="mantissa" presence="optional" primitiveType="int64"/>
          <type name="exponent" presence="constant" primitiveType="int8">-8</type>
        </composite></types>
        <message name="SecurityDefinitionForIndexInstruments" id="777">
          <field name="messageType" id="35" type="MessageType" presence="constant"
                 valueRef="MessageType.SecurityDefinition"/>
          <field name="symbol" id="55" type="Symbol6"/>
          <group name="noUnderLying" id="711" dimensionType="GroupSizeEncoding">
            <field name="underlyingSymbol" id="311" type="Symbol6"/>
            <field name="indexPct" id="6919" type="Percentage8"/>
            <field name="indexTheoreticalQty" id="37021" type="Quantity"/>
          </group>
        </message></messageSchema>""".encode()
    )
    printed = bytes.fromhex(
        "39 00 50 EB 06 00 09 03 01 00 00 00 49 42 4F 56 00 00 12 00 02 50 45 54 52 34"
        "00 CC A5 9B 06 00 00 00 00 18 55 17 03 56 41 4C 45 35 00 D0 9B CD 02 00 00 00"
        "00 9D 01 2E 01"
    )
    values = {
        "symbol": "IBOV",
        "noUnderLying": [
            {
                "underlyingSymbol": "PETR4",
                "indexPct": Decimal("1.10863820"),
                "indexTheoreticalQty": 51860760,
            },
            {
                "underlyingSymbol": "VALE5",
                "indexPct": Decimal("0.4702920"),
                "indexTheoreticalQty": 19792285,
            },
        ],
    }
    codec = SchemaCodec(schema)
    assert len(printed) == 57
    assert frame(codec.encode("SecurityDefinitionForIndexInstruments", values)) == printed
    assert codec.decode(printed, 4).values == values


def test_001_6_sample_packet():
    """The stray byte of row 0x10 is left out: the second message then starts at 0x5c."""
    packet = bytes.fromhex(
        "37 00 01 00 b1 68 de 3a 00 c8 98 65 f4 ac eb 15"
        "4c 00 50 eb 40 00 32 00 02 00 0f 00 a4 92 78 48"
        "17 00 00 00 80 01 31 00 00 00 00 00 00 61 bc 00"
        "00 00 00 00 78 e0 01 00 00 00 00 00 00 c8 98 65"
        "f4 ac eb 15 00 00 00 00 00 00 00 00 0a 00 00 00"
        "39 30 00 00 00 00 00 00 00 00 00 00 44 00 50 eb"
        "38 00 35 00 02 00 0a 00 a4 92 78 48 17 00 00 00"
        "80 01 04 00 00 00 00 00 61 bc 00 00 00 00 00 00"
        "00 00 00 00 00 00 00 d0 07 00 00 81 e3 01 00 00"
        "39 30 00 00 74 4a 45 00 00 c8 98 65 f4 ac eb 15"
    )
    assert decode_header(packet) == (55, 1, 987654321, 1579546260000000000)
    order, trade = frames(packet)
    assert (order.position, order.end) == (0x10, 0x5C)
    assert (order.block_length, order.template_id, order.schema_id, order.version) == (
        64,
        50,
        2,
        15,
    )
    assert (trade.position, trade.end) == (0x5C, 0xA0)
    assert (trade.block_length, trade.template_id, trade.schema_id, trade.version) == (
        56,
        53,
        2,
        10,
    )
    decoded = PacketDecoder().decode(packet)
    assert [message["securityID"] for message in decoded.messages] == [100000109220] * 2
    assert [message["matchEventIndicator"] for message in decoded.messages] == [0x80] * 2
    assert decoded.messages[0]["mDUpdateAction"] == "CHANGE"
    assert decoded.messages[0]["mDEntryType"] == "OFFER"


def test_003_4_5_8_establish_with_credentials():
    """The legible bytes are as printed; the lost ones are filled with values that fit."""
    credentials = (
        '{   "auth_type": "basic",   "username": "100000001",   "access_key": "123456789ABC" }'
    )
    printed = bytes.fromhex(
        "8c 00 50 eb 2a 00 04 00 01 00 02 00 01 e1 f5 05"
        "66 70 f3 1c 89 01 00 00 40 ce 48 9a 01 6e 6e 17"
        "60 ea 00 00 00 00 00 00 01 00 00 00 00 00 00 00"
        "00 00 00 00 00 00 55 7b 20 20 20 22 61 75 74 68"
        "5f 74 79 70 65 22 3a 20 22 62 61 73 69 63 22 2c"
        "20 20 20 22 75 73 65 72 6e 61 6d 65 22 3a 20 22"
        "31 30 30 30 30 30 30 30 31 22 2c 20 20 20 22 61"
        "63 63 65 73 73 5f 6b 65 79 22 3a 20 22 31 32 33"
        "34 35 36 37 38 39 41 42 43 22 20 7d"
    )
    assert len(printed) == 140 == 12 + 42 + 1 + 85
    codec = SchemaCodec(bundled("entrypoint", 2))
    decoded = codec.decode(printed, 4)
    assert decoded.message.name == "Establish"
    assert decoded.end == 140
    assert decoded["sessionID"] == 100000001
    assert decoded["timestamp"] == 0x176E6E019A48CE40
    assert decoded["credentials"] == credentials
    assert frame(codec.encode("Establish", decoded.values)) == printed


def test_003_4_6_4_simple_new_order():
    printed = bytes.fromhex(
        "75 00 50 eb 54 00 64 00 01 00 02 00 01 e1 f5 05"
        "05 00 00 00 80 11 49 0a 04 6e 6e 17 50 00 01 00"
        "6b 70 f3 1c 89 01 00 00 0f 00 00 00 54 41 44 41"
        "00 00 00 00 00 00 54 41 44 41 00 00 55 4f f0 90"
        "2e 00 00 00 31 32 30 00 64 00 00 00 00 00 00 00"
        "08 43 0f 00 00 00 00 00 2c 01 00 00 40 e2 01 00"
        "14 53 49 4d 50 4c 45 4e 45 57 4f 52 44 45 52 20"
        "42 55 59 20 35"
    )
    assert len(printed) == 117 == 12 + 84 + 1 + 20
    codec = SchemaCodec(bundled("entrypoint", 2))
    decoded = codec.decode(printed, 4)
    assert decoded.end == 117
    assert decoded.values == {
        "businessHeader": {
            "sessionID": 100000001,
            "msgSeqNum": 5,
            "sendingTime": 0x176E6E040A491180,
            "marketSegmentID": 80,
        },
        "ordTagID": 1,
        "mmProtectionReset": "FALSE_VALUE",
        "clOrdID": 0x01891CF3706B,
        "account": 15,
        "senderLocation": "TADA",
        "enteringTrader": "TADA",
        "selfTradePreventionInstruction": "NONE",
        "securityID": 200000163669,
        "side": "BUY",
        "ordType": "LIMIT",
        "timeInForce": "DAY",
        "routingInstruction": None,
        "orderQty": 100,
        "price": Decimal("100.02"),
        "investorID": {"prefix": 300, "document": 123456},
        "memo": "SIMPLENEWORDER BUY 5",
    }
    assert frame(codec.encode("SimpleNewOrder", decoded.values)) == printed


@pytest.mark.parametrize("primitive", ["int8", "int16", "int32", "int64"])
def test_000_5_5_default_null_of_signed_numbers(primitive):
    found = PRIMITIVES[primitive]
    assert found.null_value == -(1 << (8 * found.size - 1))


@pytest.mark.parametrize("primitive", ["uint8", "uint16", "uint32", "uint64"])
def test_000_5_5_default_null_of_unsigned_numbers(primitive):
    found = PRIMITIVES[primitive]
    assert found.null_value == (1 << (8 * found.size)) - 1


def test_000_5_5_default_null_of_chars():
    assert PRIMITIVES["char"].null_value == 0


def test_000_5_5_1_decimal_null():
    codec = SchemaCodec(bundled("umdf", 16))
    order = {
        "securityID": 1,
        "matchEventIndicator": 0,
        "mDUpdateAction": "NEW",
        "mDEntryType": "BID",
        "mDEntrySize": 100,
        "secondaryOrderID": 7,
    }
    priced = codec.encode("Order_MBO_50", order | {"mDEntryPx": Decimal("12.34")})
    assert priced[8 + 12 : 8 + 20] == (123400).to_bytes(8, "little")
    market = codec.encode("Order_MBO_50", order | {"mDEntryPx": None})
    assert market[8 + 12 : 8 + 20] == bytes.fromhex("00 00 00 00 00 00 00 80")
    assert codec.decode(market)["mDEntryPx"] is None
    assert codec.decode(priced)["mDEntryPx"] == Decimal("12.34")


def test_000_5_5_a_type_can_name_its_own_null():
    """A firm of 0 is no firm; so are times, and dates, of 0."""
    codec = SchemaCodec(bundled("umdf", 16))
    values = codec.decode(codec.codec(50).header + bytes(72)).values
    for name in ("enteringFirm", "mDInsertTimestamp", "rptSeq", "transactTime"):
        assert values[name] is None
    assert values["securityID"] == 0
    assert values["mDEntrySize"] == 0


def test_a_required_enum_may_hold_its_null():
    """A status of 255 in the snapshot stream says that the instrument follows its group."""
    codec = SchemaCodec(bundled("umdf", 16))
    status = {
        "securityID": 1,
        "matchEventIndicator": ["EndOfEvent"],
        "tradingSessionID": "REGULAR_TRADING_SESSION",
        "securityTradingStatus": None,
        "tradeDate": date(2026, 5, 21),
    }
    encoded = codec.encode("SecurityStatus_3", status)
    assert encoded[8 + 10] == 255
    assert codec.decode(encoded)["securityTradingStatus"] is None
