"""Layouts and members that the documents state, version by version."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pregao.sbe.codec import HeaderCodec, SchemaCodec
from pregao.sbe.model import (
    Composite,
    Data,
    EncodedType,
    EnumType,
    Field,
    Group,
    Presence,
    Schema,
    SetType,
    blocks,
)
from pregao.sbe.value_specs import readings
from pregao.schemas import bundle
from pregao.schemas.bundle import PROTOCOLS, bundled, bundled_versions
from pregao.schemas.evolution import derive
from pregao.umdf.packets import PacketHeader, encode_packet
from pregao.xml_tree import parse_tree
from tests.schemas.layout_lines import layout_lines
from tests.schemas.plain_facts import node_of_element, tree_facts

UMDF = (7, 8, 9, 10, 15, 16, 17)
ENTRYPOINT = (2, 3, 4, 5, 6)
EVERY = [("umdf", version) for version in UMDF] + [("entrypoint", each) for each in ENTRYPOINT]


def field(schema: Schema, template: int, name: str):
    """A field of a message or of the entries of its groups; None where it is not."""
    found = [
        each
        for block in blocks(schema.by_id[template])
        for each in block.fields
        if each.name == name
    ]
    return found[0] if found else None


def values(schema: Schema, name: str) -> dict[int, str]:
    """The names of an enumeration's values or of a set's bits."""
    found = schema.types[name]
    if isinstance(found, SetType):
        return {choice.bit: choice.name for choice in found.choices}
    assert isinstance(found, EnumType)
    return {member.value: member.name for member in found.members}


def exponent(schema: Schema, name: str):
    found = schema.types[name]
    assert isinstance(found, Composite)
    member = found.member("exponent")
    assert member is not None
    assert isinstance(member.type, EncodedType)
    return member.type.constant


def null_of(schema: Schema, name: str):
    found = schema.types[name]
    if isinstance(found, Composite):
        found = found.members[0].type
    assert isinstance(found, EncodedType)
    return found.null if found.presence is Presence.OPTIONAL else None


def test_versions_and_their_names():
    assert [(each.number, each.semantic_version) for each in bundled_versions("umdf")] == [
        (7, "1.6.0"),
        (8, "1.7.0"),
        (9, "1.8.0"),
        (10, "1.9.0"),
        (15, "2.1.0"),
        (16, "2.2.0"),
        (17, "2.3.1"),
    ]
    assert [(each.number, each.semantic_version) for each in bundled_versions("entrypoint")] == [
        (2, "8.0.0"),
        (3, "8.1.1"),
        (4, "8.2.1"),
        (5, "8.3.3"),
        (6, "8.4.2"),
    ]


@pytest.mark.parametrize(("protocol", "version"), EVERY)
def test_a_schema_carries_its_own_identity(protocol, version):
    schema = bundled(protocol, version)
    known = {each.number: each.semantic_version for each in bundled_versions(protocol)}
    assert (schema.id, schema.version) == (PROTOCOLS[protocol], version)
    assert schema.semantic_version == known[version]
    assert not schema.big_endian
    assert schema.header.size == 8


@pytest.mark.parametrize(
    ("template", "lengths"),
    [
        (12, [None, 230, 230, 231, 231, 232, 232]),
        (50, [64, 64, 64, 64, 64, 72, 72]),
        (51, [44, 44, 44, 44, 52, 52, 52]),
        (30, [32, 32, 32, 32, 34, 34, 34]),
        (27, [68] * 7),
        (54, [68] * 7),
        (15, [44] * 7),
        (28, [None, None, 36, 36, 36, 36, 40]),
        (29, [None, None, 32, 32, 32, 32, 32]),
        (2, [4] * 7),
        (1, [0] * 7),
    ],
)
def test_block_lengths_of_umdf(template, lengths):
    found = [bundled("umdf", version).by_id.get(template) for version in UMDF]
    assert [None if message is None else message.block_length for message in found] == lengths


def test_entries_of_template_71_grow_at_version_10():
    groups = [bundled("umdf", version).by_id[71].groups[0] for version in UMDF]
    assert [group.block_length for group in groups] == [41, 41, 41, 42, 42, 42, 42]


def test_message_counts_without_the_pseudo_message():
    counts = {version: len(bundled("umdf", version).messages) - 1 for version in UMDF}
    assert counts == {7: 27, 8: 29, 9: 31, 10: 29, 15: 29, 16: 29, 17: 29}
    assert [len(bundled("entrypoint", each).messages) - 1 for each in ENTRYPOINT] == [39] * 5
    assert all(0 in bundled(protocol, version).by_id for protocol, version in EVERY)


@pytest.mark.parametrize(
    ("template", "versions"),
    [
        (4, (7, 8, 9)),
        (12, (8, 9, 10, 15, 16, 17)),
        (20, (7, 8, 9)),
        (22, (8, 9, 10, 15, 16, 17)),
        (28, (9, 10, 15, 16, 17)),
        (49, ()),
        (58, ()),
    ],
)
def test_versions_of_a_template(template, versions):
    assert tuple(each for each in UMDF if template in bundled("umdf", each).by_id) == versions


@pytest.mark.parametrize(
    ("template", "offset", "size_before"), [(50, 28, 64), (51, 12, 44), (52, 12, 28), (71, 16, 41)]
)
def test_the_position_in_the_book_is_padding_from_version_16_on(template, offset, size_before):
    for version in UMDF:
        schema = bundled("umdf", version)
        position = field(schema, template, "mDEntryPositionNo")
        block = list(blocks(schema.by_id[template]))[-1]
        taken = [(each.offset, each.offset + each.size) for each in block.fields if each.size]
        if version < 16:
            assert (position.offset, position.size) == (offset, 4)
        else:
            assert position is None
            assert all(end <= offset or start >= offset + 4 for start, end in taken)
    assert list(blocks(bundled("umdf", 7).by_id[template]))[-1].block_length == size_before


@pytest.mark.parametrize(
    ("template", "offset"), [(50, 56), (51, 32), (52, 16), (53, 44), (54, 42), (55, 56), (57, 36)]
)
def test_transact_time_replaces_the_entry_time_at_version_15(template, offset):
    for version in UMDF:
        old = field(bundled("umdf", version), template, "mDEntryTimestamp")
        new = field(bundled("umdf", version), template, "transactTime")
        stands, gone = (old, new) if version < 15 else (new, old)
        assert gone is None
        assert (stands.offset, stands.size) == (offset, 8)
        assert stands.id == (37033 if version < 15 else 60)


def test_minimum_price_increment_has_eight_decimals_in_template_12():
    schema = bundled("umdf", 8)
    assert field(schema, 12, "minPriceIncrement").type.name == "Fixed8"
    assert field(schema, 4, "minPriceIncrement").type.name == "PriceOptional"
    assert field(schema, 12, "indexPct") is None
    assert field(schema, 4, "indexPct").type.name == "Percentage9"


def test_bit_4_of_the_match_event_indicator_changed_its_meaning():
    for version in UMDF:
        bits = values(bundled("umdf", version), "MatchEventIndicator")
        assert bits[4] == ("LastImpliedMsg" if version < 10 else "Implied")
        assert sorted(bits) == (list(range(8)) if version < 10 else [4, 5, 7])


def test_trade_sub_type_105_was_renamed_and_109_added():
    names = {version: values(bundled("umdf", version), "TrdSubType") for version in UMDF}
    assert [names[version][105] for version in UMDF] == ["RFQ_TRADE"] + ["RF_TRADE"] * 6
    assert [109 in names[version] for version in UMDF] == [False, False, *[True] * 5]


def test_phases_18_and_21_and_payout_2_were_renamed_at_version_17():
    names = {version: values(bundled("umdf", version), "TradingSessionSubID") for version in UMDF}
    older, newest = names[16], names[17]
    assert all(names[version] == older for version in UMDF[:-1])
    assert (older[18], older[21]) == ("FORBIDDEN", "RESERVED")
    assert newest == {**older, 18: "PRE_CLOSE", 21: "PRE_OPEN"}
    states = [values(bundled("umdf", version), "SecurityTradingStatus") for version in UMDF]
    assert states == [older] * 7  # states of instruments keep their names
    payouts = [values(bundled("umdf", version), "OptPayoutType") for version in (16, 17)]
    assert payouts == [
        {1: "VANILLA", 2: "CAPPED", 3: "BINARY"},
        {1: "VANILLA", 2: "VANILLA_CASH_SETTLEMENT", 3: "BINARY"},
    ]


def test_the_settlement_price_of_version_17_has_a_date_and_an_optional_flag():
    older, newest = (bundled("umdf", version) for version in (16, 17))
    assert field(older, 28, "settlDate") is None
    date, flag = field(newest, 28, "settlDate"), field(newest, 28, "openCloseSettlFlag")
    assert (date.id, date.offset, date.size, date.type.name) == (64, 35, 2, "LocalMktDate")
    assert (date.presence, date.since_version) == (Presence.OPTIONAL, 17)
    assert (flag.offset, flag.presence, flag.deprecated) == (28, Presence.OPTIONAL, 17)
    before = field(older, 28, "openCloseSettlFlag")
    assert (before.offset, before.presence, before.deprecated) == (28, Presence.REQUIRED, None)
    # SBE's null of the primitive type: the type of the date has none of its own.
    nulls = {each.name: each.null for each in readings(newest.by_id[28])}
    assert (nulls["settlDate"], nulls["openCloseSettlFlag"]) == (65535, 255)


def test_version_17_changes_nothing_else():
    """Every difference between the two trees, other than descriptions."""
    path = Path(bundle.__file__).parent / "umdf" / "umdf.xml"
    tree = parse_tree(path.read_bytes(), path.name)
    older, newest = (tree_facts(node_of_element(derive(tree, each))) for each in (16, 17))
    assert sorted(older - newest) == [
        "OptPayoutType.CAPPED is a validValue with text '2'",
        "OptPayoutType.CAPPED name = 'CAPPED'",
        "TradingSessionSubID.FORBIDDEN is a validValue with text '18'",
        "TradingSessionSubID.FORBIDDEN name = 'FORBIDDEN'",
        "TradingSessionSubID.RESERVED is a validValue with text '21'",
        "TradingSessionSubID.RESERVED name = 'RESERVED'",
        "message 28 block length is 36",
        f"message 28 has its parts in the order {['field'] * 15}",
        "schema semanticVersion = '2.2.0'",
        "schema version = '16'",
    ]
    assert sorted(newest - older) == [
        "InstrAttribType.TEST_INSTRUMENT is a validValue with text '35'",
        "InstrAttribType.TEST_INSTRUMENT name = 'TEST_INSTRUMENT'",
        "InstrAttribType.TEST_INSTRUMENT sinceVersion = '17'",
        "OptPayoutType.VANILLA_CASH_SETTLEMENT is a validValue with text '2'",
        "OptPayoutType.VANILLA_CASH_SETTLEMENT name = 'VANILLA_CASH_SETTLEMENT'",
        "OptPayoutType.VANILLA_CASH_SETTLEMENT sinceVersion = '17'",
        "TradingSessionSubID.PRE_CLOSE is a validValue with text '18'",
        "TradingSessionSubID.PRE_CLOSE name = 'PRE_CLOSE'",
        "TradingSessionSubID.PRE_OPEN is a validValue with text '21'",
        "TradingSessionSubID.PRE_OPEN name = 'PRE_OPEN'",
        "message 28 block length is 40",
        f"message 28 has its parts in the order {['field'] * 16}",
        "message 28.field[11] deprecated = '17'",
        "message 28.field[11] presence = 'optional'",
        "message 28.field[15] id = '64'",
        "message 28.field[15] is a field with text ''",
        "message 28.field[15] is of ['uint16', None, None, None, None, None, '']",
        "message 28.field[15] name = 'settlDate'",
        "message 28.field[15] presence = 'optional'",
        "message 28.field[15] sinceVersion = '17'",
        "message 28.field[15] stands at 35, takes 2 bytes",
        "message 28.field[15] type = 'LocalMktDate'",
        "schema semanticVersion = '2.3.1'",
        "schema version = '17'",
    ]


def test_restatement_reason_209_was_reassigned():
    for version in ENTRYPOINT:
        reasons = values(bundled("entrypoint", version), "ExecRestatementReason")
        if version < 5:
            assert reasons[209] == "CANCEL_ON_MIDPOINT_BROKER_ONLY_REMOVAL"
            assert 213 not in reasons
        else:
            assert reasons[209] == "CANCEL_MINIMUM_QTY_BLOCK"
            assert reasons[213] == "CANCEL_ON_MIDPOINT_BROKER_ONLY_REMOVAL"
        assert (1 in reasons) == (version >= 6)


@pytest.mark.parametrize("template", [401, 402, 403, 404, 405])
def test_quotes_changed_incompatibly_at_version_3(template):
    old, new = (bundled("entrypoint", version).by_id[template] for version in (2, 3))
    assert "quoteReqID" in [each.name for each in old.data]
    assert "quoteReqID" not in [each.name for each in old.fields]
    assert "quoteReqID" not in [each.name for each in new.data]
    assert "quoteReqID" in [each.name for each in new.fields]
    assert new.block_length == old.block_length + 8


def test_investor_id_has_a_gap_and_simple_new_order_84_bytes():
    for version in ENTRYPOINT:
        schema = bundled("entrypoint", version)
        investor = schema.types["InvestorID"]
        assert isinstance(investor, Composite)
        assert [(each.name, each.offset) for each in investor.members] == [
            ("prefix", 0),
            ("document", 4),
        ]
        assert investor.size == 8
        assert schema.by_id[100].block_length == 84


def test_business_headers_keep_their_size_while_members_change():
    sizes = {"InboundBusinessHeader": 18, "OutboundBusinessHeader": 18}
    sizes["BidirectionalBusinessHeader"] = 20
    for version in ENTRYPOINT:
        types = bundled("entrypoint", version).types
        assert {name: types[name].size for name in sizes} == sizes
        outbound = types["OutboundBusinessHeader"]
        assert isinstance(outbound, Composite)
        assert (outbound.member("possResend") is None) == (version >= 5)
        assert (outbound.member("eventIndicator") is None) == (version < 5)
        assert (outbound.member("marketSegmentID") is None) == (version < 5)


def numbers_of(composite):
    """The members of a composite: name, primitive type, offset."""
    assert isinstance(composite, Composite)
    return [(each.name, each.type.primitive.name, each.offset) for each in composite.members]


@pytest.mark.parametrize("version", UMDF)
def test_001_10_2_the_framing_header_has_length_and_encoding(version):
    framing = bundled("umdf", version).types["FramingHeader"]
    assert framing.size == 4
    assert numbers_of(framing) == [("messageLength", "uint16", 0), ("encodingType", "uint16", 2)]


@pytest.mark.parametrize(("protocol", "version"), EVERY)
def test_001_10_5_the_message_header_has_eight_bytes(protocol, version):
    """The document prints nine; its four numbers, and every packet, have eight."""
    schema = bundled(protocol, version)
    for header in (schema.types["messageHeader"], schema.header.type):
        assert header.size == 8
        assert numbers_of(header) == [
            ("blockLength", "uint16", 0),
            ("templateId", "uint16", 2),
            ("schemaId", "uint16", 4),
            ("version", "uint16", 6),
        ]


@pytest.mark.parametrize("version", UMDF)
def test_001_10_2_and_10_5_headers_on_the_wire(version):
    codec = SchemaCodec(bundled("umdf", version))
    message = codec.encode("Sequence_2", {"nextSeqNo": 7})
    packet = encode_packet(PacketHeader(80, 3, 0, 1), [message, message])
    header = f"0400 0200 0200 {version:02x}00 07000000"
    assert packet[16:] == bytes.fromhex(f"1000 50eb {header}") * 2
    assert HeaderCodec(bundled("umdf", version)).decode(message) == (4, 2, 2, version)


def test_headers_outside_of_sbe():
    for version in UMDF:
        types = bundled("umdf", version).types
        packet = types["PacketHeader"]
        assert isinstance(packet, Composite)
        assert (packet.size, types["FramingHeader"].size) == (16, 4)
        assert [(each.name, each.offset) for each in packet.members] == [
            ("channelNumber", 0),
            ("reserved", 1),
            ("sequenceVersion", 2),
            ("sequenceNumber", 4),
            ("sendingTime", 8),
        ]
    assert bundled("umdf").types["GroupSizeEncoding"].size == 3


@pytest.mark.parametrize(
    ("protocol", "name", "scale"),
    [
        ("umdf", "Price", -4),
        ("umdf", "PriceOptional", -4),
        ("umdf", "Percentage", -4),
        ("umdf", "Price8", -8),
        ("umdf", "PriceOffset8Optional", -8),
        ("umdf", "Fixed8", -8),
        ("umdf", "RatioQty", -7),
        ("entrypoint", "Price", -4),
        ("entrypoint", "Price8", -8),
        ("entrypoint", "Percentage8", -8),
        ("entrypoint", "RatioQty", -7),
    ],
)
def test_the_scale_of_a_price_belongs_to_its_type(protocol, name, scale):
    assert exponent(bundled(protocol), name) == scale


@pytest.mark.parametrize(
    "name",
    [
        "FirmOptional",
        "UInt8NULL",
        "UInt16NULL",
        "UInt32NULL",
        "UInt64NULL",
        "RptSeq",
        "UTCTimestampNanos",
        "LocalMktDateOptional",
        "LocalMktDate32Optional",
        "SecurityIDOptional",
        "NewsID",
        "Percentage",
    ],
)
def test_types_of_umdf_with_null_zero(name):
    assert null_of(bundled("umdf"), name) == 0


@pytest.mark.parametrize(
    "name", ["PriceOptional", "Fixed8", "PriceOffset8Optional", "QuantityOptional", "RatioQty"]
)
def test_types_of_umdf_with_the_minimum_as_null(name):
    assert null_of(bundled("umdf"), name) == -(2**63)


def test_null_of_an_optional_settlement_period_is_not_zero():
    assert null_of(bundled("entrypoint"), "DaysToSettlementOptional") == 65535


@pytest.mark.parametrize(("protocol", "version"), EVERY)
def test_every_message_and_nearly_every_field_is_described(protocol, version):
    schema = bundled(protocol, version)
    fields: list[Field | Group | Data] = []
    for message in schema.messages:
        for block in blocks(message):
            fields += [each for each in block.fields if each.presence is not Presence.CONSTANT]
            fields += [*block.groups, *block.data]
    texts = [message.description for message in schema.messages]
    texts += [each.description for each in fields if each.description]
    assert all(texts)
    assert len(texts) > 0.9 * (len(schema.messages) + len(fields))
    assert all(text.endswith(".") and len(text) < 90 for text in texts)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_block_only_grows_as_documented(protocol):
    """Fields are appended or take padding; only quotes, the legacy of version 2, were moved."""
    versions = [each.number for each in bundled_versions(protocol)]
    for old, new in pairwise(versions):
        after = bundled(protocol, new).by_id
        for message in bundled(protocol, old).messages:
            if message.id not in after or (protocol, old, message.id // 100) == (
                "entrypoint",
                2,
                4,
            ):
                continue
            assert after[message.id].block_length >= message.block_length
            moved = {
                (each.name, each.offset)
                for each in message.fields
                if (now := field(bundled(protocol, new), message.id, each.name)) is not None
                and now.offset != each.offset
                and each.presence is not Presence.CONSTANT
            }
            assert moved == set()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_001_4_2_every_field_of_every_version_is_where_the_documents_put_it(protocol):
    """The files next to this one were written from the published schemas."""
    schemas = {
        version.number: bundled(protocol, version.number) for version in bundled_versions(protocol)
    }
    pinned = Path(__file__).with_name(f"layouts_{protocol}.txt").read_text().splitlines()
    assert layout_lines(schemas) == pinned


@pytest.mark.parametrize("version", UMDF)
def test_001_10_1_fixed_8_is_a_mantissa_of_64_bits_with_eight_decimals(version):
    fixed = bundled("umdf", version).types["Fixed8"]
    assert isinstance(fixed, Composite)
    mantissa, scale = fixed.members
    assert (mantissa.name, mantissa.offset) == ("mantissa", 0)
    assert isinstance(mantissa.type, EncodedType)
    assert mantissa.type.primitive.name == "int64"
    assert isinstance(scale.type, EncodedType)
    assert scale.type.constant is not None
    assert fixed.size == 8
    assert exponent(bundled("umdf", version), "Fixed8") == -8


@pytest.mark.parametrize("version", UMDF)
def test_001_11_2_and_11_3_every_condition_has_its_bit(version):
    schema = bundled("umdf", version)
    assert values(schema, "ImbalanceCondition").items() >= {
        (8, "ImbalanceMoreBuyers"),
        (9, "ImbalanceMoreSellers"),
    }
    for bit, name in (
        (0, "OpeningPrice"),
        (1, "Crossed"),
        (2, "LastTradeAtTheSamePrice"),
        (3, "OutOfSequence"),
        (6, "TradeOnBehalf"),
        (13, "RegularTrade"),
        (14, "BlockTrade"),
    ):
        assert values(schema, "TradeCondition")[bit] == name
