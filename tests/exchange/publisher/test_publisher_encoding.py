"""Every message of every version: which template and fields an event is written with."""

from __future__ import annotations

import struct
from dataclasses import fields, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import EncodeError, FieldRangeError, SchemaError
from pregao.exchange.engine.model import events
from pregao.exchange.engine.model.enums import (
    AggressorSide,
    ImbalanceCondition,
    NewsSource,
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    SecurityUpdateAction,
    SettlPriceType,
    TradeCondition,
    TradingSession,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.instruments import (
    InstrAttrib,
    InstrAttribType,
    InstrAttribValue,
    OptPayoutType,
    Underlying,
)
from pregao.exchange.publisher.encoding.encoder import FeedEncoder, cut_text
from pregao.exchange.publisher.encoding.fields import rescale
from pregao.sbe.codec import SbeMessage
from pregao.sbe.model import Nature
from pregao.sbe.value_specs import readings
from pregao.umdf.phases import TradingEvent
from tests.exchange.feed_reader import VERSIONS, codec
from tests.exchange.floor import px, share

ENCODERS = {version: FeedEncoder(version) for version in VERSIONS}
DAY = (date(2026, 5, 21) - date(1970, 1, 1)).days
DATE = date(2026, 5, 21)
REGULAR = TradingSession.REGULAR
T1, T2, T3 = 1_780_000_000_000_000_001, 1_780_000_000_000_000_002, 1_780_000_000_000_000_003

TRADE = {
    "securityID": 11,
    "tradingSessionID": "REGULAR_TRADING_SESSION",
    "tradeCondition": 1 << 13,
    "mDEntryPx": Decimal("20.5000"),
    "mDEntrySize": 800,
    "tradeID": 10,
    "mDEntryBuyer": 85,
    "mDEntrySeller": None,
    "tradeDate": DATE,
    "trdSubType": "SWEEP_TRADE",
}
CONDITION = int(TradeCondition.REGULAR_TRADE)
SWEEP = TrdSubType.SWEEP_TRADE

CASES: list[tuple[Any, int, dict[str, Any]]] = [
    (
        events.ExecutionSummary(11, AggressorSide.SELL, px(20.5), 1800, 1000, 0, T1, T2),
        55,
        {
            "securityID": 11,
            "aggressorSide": "SELL",
            "lastPx": Decimal("20.5000"),
            "fillQty": 1800,
            "tradedHiddenQty": 1000,
            "cxlQty": 0,
            "aggressorTime": T1,
            "transactTime": T2,
        },
    ),
    (
        events.Trade(11, REGULAR, CONDITION, px(20.5), 800, 10, 85, None, DAY, SWEEP, T2),
        53,
        {**TRADE, "transactTime": T2},
    ),
    (
        events.ForwardTrade(
            11, REGULAR, CONDITION, px(20.5), 800, 10, 85, None, DAY, SWEEP, T2, 30, 125
        ),
        54,
        {
            **TRADE,
            "transactTime": T2,
            "sellerDays": 30,
            "mDEntryInterestRate": Decimal("0.0125"),
        },
    ),
    (
        events.LastTradePrice(
            11, REGULAR, CONDITION, px(20.5), 800, 10, 85, None, DAY, SWEEP, T2, 30, 125
        ),
        27,
        {
            **TRADE,
            "mDEntryTimestamp": T2,
            "sellerDays": 30,
            "mDEntryInterestRate": Decimal("0.0125"),
        },
    ),
    (
        events.TradeBust(11, TradingSession.NON_REGULAR, px(20.5), 800, 10, DAY, T2),
        57,
        {
            "securityID": 11,
            "tradingSessionID": "NON_REGULAR_TRADING_SESSION",
            "mDEntryPx": Decimal("20.5000"),
            "mDEntrySize": 800,
            "tradeID": 10,
            "tradeDate": DATE,
            "transactTime": T2,
        },
    ),
    (
        events.OpeningPrice(11, px(20.5), -12345678, DAY, T2),
        15,
        {
            "securityID": 11,
            "mDUpdateAction": "NEW",
            "openCloseSettlFlag": "DAILY",
            "mDEntryPx": Decimal("20.5000"),
            "netChgPrevDay": Decimal("-0.12345678"),
            "tradeDate": DATE,
            "mDEntryTimestamp": T2,
        },
    ),
    (
        events.HighPrice(11, px(21), DAY, T2),
        24,
        {"mDUpdateAction": "NEW", "mDEntryPx": Decimal("21.0000"), "tradeDate": DATE},
    ),
    (
        events.LowPrice(11, px(19), DAY, T2, deleted=True),
        25,
        {"mDUpdateAction": "DELETE", "mDEntryPx": Decimal("19.0000"), "mDEntryTimestamp": T2},
    ),
    (
        events.ExecutionStatistics(11, REGULAR, DAY, 5000, px(20.1234), None, 3, T2),
        56,
        {
            "tradeVolume": 5000,
            "vwapPx": Decimal("20.1234"),
            "netChgPrevDay": None,
            "numberOfTrades": 3,
            "tradeDate": DATE,
            "mDEntryTimestamp": T2,
        },
    ),
    (
        events.TheoreticalOpeningPrice(11, px(20), 700, DAY, T2),
        16,
        {"mDUpdateAction": "NEW", "mDEntryPx": Decimal("20.0000"), "mDEntrySize": 700},
    ),
    (
        events.TheoreticalOpeningPrice(11, None, None, DAY, T2, deleted=True),
        16,
        {"mDUpdateAction": "DELETE", "mDEntryPx": None, "mDEntrySize": None},
    ),
    (
        events.AuctionImbalance(11, ImbalanceCondition.MORE_SELLERS, 300, T2),
        19,
        {"mDUpdateAction": "NEW", "imbalanceCondition": 1 << 9, "mDEntrySize": 300},
    ),
    (
        events.ClosingPrice(11, 20_1234_5678, OpenCloseSettlFlag.DAILY, DAY - 1, DAY, T2),
        17,
        {
            "mDEntryPx": Decimal("20.12345678"),
            "openCloseSettlFlag": "DAILY",
            "lastTradeDate": date(2026, 5, 20),
            "tradeDate": DATE,
        },
    ),
    (
        events.SettlementPrice(
            11,
            px(20.5),
            OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY,
            PriceType.PU,
            SettlPriceType.UPDATED,
            DAY,
            T2,
            DAY - 3,
        ),
        28,
        {
            "mDEntryPx": Decimal("20.5000"),
            "openCloseSettlFlag": "ENTRY_FROM_PREVIOUS_BUSINESS_DAY",
            "priceType": "PU",
            "settlPriceType": "UPDATED",
            "settlDate": date(2026, 5, 18),
        },
    ),
    (events.OpenInterest(11, 4321, DAY, T2), 29, {"mDEntrySize": 4321, "tradeDate": DATE}),
    (
        events.PriceBand(
            11,
            PriceBandType.AUCTION_LIMITS,
            PriceLimitType.PERCENTAGE,
            PriceBandMidpoint.LAST_TRADED_PRICE,
            px(-5),
            px(5),
            None,
            T2,
        ),
        22,
        {
            "priceBandType": "AUCTION_LIMITS",
            "priceLimitType": "PERCENTAGE",
            "priceBandMidpointPriceType": "LAST_TRADED_PRICE",
            "lowLimitPrice": Decimal("-5.0000"),
            "highLimitPrice": Decimal("5.0000"),
            "tradingReferencePrice": None,
        },
    ),
    (
        events.QuantityBand(11, None, 90_000, T2),
        21,
        {"avgDailyTradedQty": None, "maxTradeVol": 90_000},
    ),
    (
        events.SecurityStatus(
            11,
            REGULAR,
            TradingStatus.RESERVED,
            TradingEvent.SECURITY_STATUS_CHANGE,
            DAY,
            T3,
            T2,
        ),
        3,
        {
            "securityTradingStatus": "RESERVED",
            "securityTradingEvent": "SECURITY_STATUS_CHANGE",
            "tradeDate": DATE,
            "tradSesOpenTime": T3,
            "transactTime": T2,
        },
    ),
    (
        events.SecurityStatus(11, REGULAR, None, None, DAY, None, T2),
        3,
        {"securityTradingStatus": None, "securityTradingEvent": None, "tradSesOpenTime": None},
    ),
    (
        events.SecurityGroupPhase("XX", REGULAR, TradingStatus.PAUSE, None, DAY, None, T2),
        10,
        {
            "securityGroup": "XX",
            "tradingSessionSubID": "PAUSE",
            "securityTradingEvent": None,
            "tradSesOpenTime": None,
            "transactTime": T2,
        },
    ),
    (events.EmptyBook(11, T2), 9, {"securityID": 11, "mDEntryTimestamp": T2}),
    (events.ChannelReset(1, T2), 11, {"mDEntryTimestamp": T2}),
]


def decoded(version: int, message: bytes) -> SbeMessage:
    result = codec(version).decode(message)
    assert result.end == len(message)
    return result


def older(version: int, template: int, expected: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A case decoded in a version: template and values."""
    values = dict(expected)
    if version < 15 and template in (53, 54, 55, 57):
        values["mDEntryTimestamp"] = values.pop("transactTime")
    if version < 9 and "trdSubType" in values:
        values["trdSubType"] = None
    if version < 17:
        values.pop("settlDate", None)
    return (20 if template == 22 and version < 8 else template), values


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("item", "template", "expected"), CASES, ids=lambda x: type(x).__name__)
def test_an_event_is_written_with_its_values(version, item, template, expected):
    encoder = ENCODERS[version]
    if version < 9 and template in (28, 29):
        assert type(item) in encoder.unknown
        return
    message = decoded(version, encoder.write(item, 0x80, 77))
    template, expected = older(version, template, expected)
    assert message.message.id == template
    assert {name: message.values[name] for name in expected} == expected
    if "rptSeq" in message.values:
        assert message["rptSeq"] == 77
    recovery = 0x20 if template in (9, 11) else 0
    assert message.values.get("matchEventIndicator", 0x80 | recovery) == 0x80 | recovery
    assert set(expected) <= set(message.values)


EXTREMES = (0, -1, 2**16 - 1, 2**32 - 1, 10**18 - 1, 10**18, 2**63 - 1, 2**64, -(2**63))


@pytest.mark.parametrize("item", [item for item, *_ in CASES], ids=lambda item: type(item).__name__)
def test_every_number_of_an_event_at_its_extremes_is_written_or_refused(item):
    """Also as the null of its field, and without changing any other field."""
    for field in fields(item):
        # The channel is that of the packet.
        if field.name == "channel" or type(getattr(item, field.name)) is not int:
            continue

        def write(value, name=field.name):
            return decoded(17, ENCODERS[17].write(replace(item, **{name: value}), 0x80, 77))

        message, one, two = write(1).message, dict(write(1).values), dict(write(2).values)
        (name,) = [each for each in one if one[each] != two[each]]
        unit, (spec,) = two[name] - one[name], (x for x in readings(message) if x.name == name)
        first, bits = one.pop(name), 8 * spec.size
        low = -(1 << bits - 1) if spec.primitive.nature is Nature.SIGNED else 0
        for value in EXTREMES:
            try:
                found = dict(write(value).values)
            except EncodeError:
                assert not low <= value < low + (1 << bits), (name, value)
                continue
            except FieldRangeError:
                assert abs(value) >= 10**18
                continue
            shown = found.pop(name)
            assert shown == (None if value == spec.null else first + (value - 1) * unit)
            assert found == one


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reference_price_has_the_decimals_of_its_version(version):
    band = events.PriceBand(11, None, None, None, None, None, 9_1234_5678, T2)
    message = decoded(version, ENCODERS[version].write(band))
    assert message["priceBandType"] is None
    assert message["tradingReferencePrice"] == (
        Decimal("9.1235") if version == 7 else Decimal("9.12345678")
    )


def added(**changes: Any) -> events.NewOrderMbo:
    fields: dict[str, Any] = {
        "security_id": 11,
        "side": OrderSide.BUY,
        "price": px(12.1),
        "size": 15,
        "secondary_order_id": 300358,
        "firm": 8,
        "insert_time_ns": T1,
        "transact_time_ns": T2,
    }
    return events.NewOrderMbo(**{**fields, **changes})


@pytest.mark.parametrize("version", VERSIONS)
def test_orders_carry_what_their_version_has(version):
    orders = ENCODERS[version].orders
    positions = version < 15
    assert orders.positions is positions
    position = 4 if positions else None
    time_name = "mDEntryTimestamp" if positions else "transactTime"

    new = decoded(version, orders.added(added(implied=True, recovery=True), 0x80, 5, position))
    implied = 0x10 if version >= 10 else 0
    assert new["matchEventIndicator"] == 0x80 | 0x20 | implied
    assert (new["mDUpdateAction"], new["mDEntryType"]) == ("NEW", "BID")
    assert (new["mDEntryPx"], new["mDEntrySize"]) == (Decimal("12.1"), 15)
    assert (new["enteringFirm"], new["secondaryOrderID"], new["rptSeq"]) == (8, 300358, 5)
    assert (new["mDInsertTimestamp"], new[time_name]) == (T1, T2)
    assert new.values.get("mDEntryPositionNo") == position
    assert ("mDEntryPositionNo" in new.values) == (version < 16)
    assert new.values.get("mDEntryPrevSize") is None
    unpriced = orders.added(added(price=None, firm=None, side=OrderSide.SELL), 0, 6, position)
    unpriced_values = decoded(version, unpriced).values
    assert unpriced_values["mDEntryPx"] is None
    assert unpriced_values["enteringFirm"] is None
    assert unpriced_values["mDEntryType"] == "OFFER"

    change = events.ChangeOrderMbo(11, OrderSide.SELL, px(12.3), 5, 15, 95010, None, T1, T2)
    changed = decoded(version, orders.changed(change, 0, 7, position))
    assert (changed["mDUpdateAction"], changed["mDEntrySize"]) == ("CHANGE", 5)
    assert changed.values.get("mDEntryPrevSize") == (15 if version >= 16 else None)
    assert ("mDEntryPrevSize" in changed.values) == (version >= 16)

    gone = events.DeleteOrderMbo(11, OrderSide.SELL, px(12.3), 5, 95010, T2, matched=True)
    deleted = decoded(version, orders.deleted(gone, 0, 8, position))
    # While it was optional, the size was left out where a match had taken the order.
    assert deleted["mDEntrySize"] == (None if positions else 5)
    assert deleted.values.get("mDEntryPx") == (None if positions else Decimal("12.3"))
    assert deleted[time_name] == T2
    cancelled = events.DeleteOrderMbo(11, OrderSide.SELL, None, 5, 95010, T2, implied=True)
    message = decoded(version, orders.deleted(cancelled, 0, 9, position))
    assert message["mDEntrySize"] == 5
    assert message["matchEventIndicator"] == implied

    side = events.MassDeleteOrders(11, OrderSide.BUY, 4, T2)
    thru = decoded(version, orders.side_deleted(side, 0x80, 10))
    assert (thru["mDUpdateAction"], thru["mDEntryType"]) == ("DELETE_THRU", "BID")
    assert thru.values.get("mDEntryPositionNo") == (1 if positions else None)
    assert thru[time_name] == T2


def test_every_template_of_every_version_is_written_by_some_encoder():
    for version in VERSIONS:
        encoder = ENCODERS[version]
        position = 1 if encoder.positions else None
        order = added()
        entry = encoder.snapshot_orders.entries[order.side]
        placed = (1,) if encoder.snapshot_orders.placed else ()
        written = [encoder.write(item) for item, _, _ in CASES if type(item) not in encoder.unknown]
        written += [
            encoder.orders.added(order, 0, 1, position),
            encoder.orders.deleted(
                events.DeleteOrderMbo(11, OrderSide.BUY, 1, 1, 1, T2), 0, 1, position
            ),
            encoder.orders.side_deleted(events.MassDeleteOrders(11, OrderSide.BUY, 1, T2), 0, 1),
            encoder.snapshot_orders.message(11, entry(order, *placed)),
            encoder.snapshot_header(11, 1, 1, 1, 0, 0, None, 1),
            encoder.definitions.message(share(), SecurityUpdateAction.ADD, 1, True),
            *encoder.news.messages(news("x"), 0x80, 0x80),
            encoder.sequence_reset,
            encoder.sequence(5),
        ]
        templates = {decoded(version, message).message.id for message in written}
        # At 8 and 9 the old definition and band are still in the schema, deprecated.
        there = {message.id for message in codec(version).schema.messages} - {0}
        assert templates == there - ({4, 20} if version >= 8 else set())


def test_000_6_5_6_1_sequence_message():
    printed = bytes.fromhex("04 00 02 00 02 00 00 00 E2 C6 9E 01")
    for version in VERSIONS:
        expected = bytearray(printed)
        expected[6] = version
        assert ENCODERS[version].sequence(27_182_818) == bytes(expected)


def test_a_version_that_is_not_known_is_refused():
    with pytest.raises(SchemaError, match="version 11 of umdf is not bundled"):
        FeedEncoder(11)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_instrument_of_the_catalogue_is_defined(version):
    encoder = ENCODERS[version].definitions
    for instrument in bundled_catalogue():
        message = decoded(version, encoder.message(instrument, SecurityUpdateAction.ADD, 60, False))
        assert message.message.id == (4 if version == 7 else 12)
        assert message["securityID"] == instrument.security_id
        assert message["symbol"] == instrument.symbol
        assert message["securityUpdateAction"] == "ADD"
        assert message["totNoRelatedSym"] == 60
        assert message["lastFragment"] == "FALSE_VALUE"
        assert message["minPriceIncrement"] == Decimal(instrument.min_price_increment).scaleb(-8)
        assert message["securityType"] == instrument.security_type.name
        assert message["maturityDate"] == instrument.maturity_date
        assert message["securityDesc"] == (instrument.security_desc or None)
        assert [
            (leg["legSecurityID"], leg["legSymbol"], leg["legSide"], leg["legRatioQty"])
            for leg in message["noLegs"]
        ] == [
            (leg.security_id, leg.symbol, leg.side.name, Decimal(leg.ratio_qty).scaleb(-7))
            for leg in instrument.legs
        ]
        assert [
            (each["underlyingSecurityID"], each["underlyingSymbol"])
            for each in message["noUnderlyings"]
        ] == [(each.security_id, each.symbol) for each in instrument.underlyings]
        assert [
            (each["instrAttribType"], each["instrAttribValue"])
            for each in message["noInstrAttribs"]
        ] == [(each.type.name, each.value.name) for each in instrument.attributes]
        assert ("impliedMarketIndicator" in message.values) == (version >= 10)
        assert ("optPayoutType" in message.values) == (version >= 16)


def settlement(**changes: Any) -> events.SettlementPrice:
    fields: dict[str, Any] = {
        "security_id": 11,
        "price": px(20.5),
        "flag": OpenCloseSettlFlag.DAILY,
        "price_type": None,
        "settl_price_type": SettlPriceType.FINAL,
        "trade_date": DAY,
        "time_ns": T2,
    }
    return events.SettlementPrice(**{**fields, **changes})


def test_000_13_11_3_the_settlement_price_of_version_17_has_its_date():
    """The bytes of version 16, then the date and padding; without a date its null."""
    older, newest = ENCODERS[16].write(settlement(), 0x80, 7), settlement(settl_date=DAY)
    for item, expected in ((newest, DAY), (settlement(), 65535), (settlement(settl_date=0), 0)):
        written = ENCODERS[17].write(item, 0x80, 7)
        assert written[:8] == struct.pack("<4H", 40, 28, 2, 17)
        assert (len(older), len(written)) == (8 + 36, 8 + 40)
        assert written[8 : 8 + 35] == older[8 : 8 + 35]
        assert written[8 + 35 :] == struct.pack("<H", expected) + bytes(3)
        assert ENCODERS[16].write(item, 0x80, 7) == older


@pytest.mark.parametrize("version", VERSIONS)
def test_000_14_2_phases_18_and_21_have_the_names_of_their_version(version):
    names = []
    for phase in (TradingStatus.FORBIDDEN, TradingStatus.RESERVED):
        item = events.SecurityGroupPhase("XX", TradingSession.REGULAR, phase, None, DAY, None, T1)
        written = ENCODERS[version].write(item)
        assert written[8 + 10] == int(phase)
        names.append(decoded(version, written)["tradingSessionSubID"])
    assert names == (["FORBIDDEN", "RESERVED"] if version < 17 else ["PRE_CLOSE", "PRE_OPEN"])


@pytest.mark.parametrize("version", VERSIONS)
def test_only_versions_that_know_it_mark_a_test_instrument(version):
    yes = InstrAttribValue.ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE
    kinds = (InstrAttribType.GTD_GTC_ELIGIBILITY, InstrAttribType.TEST_INSTRUMENT)
    payout = OptPayoutType.VANILLA_CASH_SETTLEMENT
    marked = share(
        attributes=tuple(InstrAttrib(kind, yes) for kind in kinds), opt_payout_type=payout
    )
    message = decoded(
        version,
        ENCODERS[version].definitions.message(marked, SecurityUpdateAction.ADD, 1, True),
    )
    found = [each["instrAttribType"] for each in message["noInstrAttribs"]]
    assert found == ["GTD_GTC_ELIGIBILITY", *(["TEST_INSTRUMENT"] if version >= 17 else [])]
    expected = {16: "CAPPED", 17: "VANILLA_CASH_SETTLEMENT"}.get(version)
    assert message.values.get("optPayoutType") == expected


def test_a_tick_that_does_not_fit_four_decimals_is_null_in_version_7():
    fine = share(min_price_increment=1_000)
    seven = ENCODERS[7].definitions.message(fine, SecurityUpdateAction.MODIFY, 1, True)
    eight = ENCODERS[8].definitions.message(fine, SecurityUpdateAction.MODIFY, 1, True)
    assert decoded(7, seven)["minPriceIncrement"] is None
    assert decoded(8, eight)["minPriceIncrement"] == Decimal("0.00001")


def test_a_definition_that_fits_no_packet_is_refused_by_name():
    basket = tuple(Underlying(number, f"SHARE{number}") for number in range(60))
    with pytest.raises(EncodeError, match=r"definition of ACME1 has .* reduce its legs"):
        ENCODERS[16].definitions.message(
            share(underlyings=basket), SecurityUpdateAction.ADD, 1, True
        )
    with pytest.raises(EncodeError, match="definition of ACME1: asset"):
        ENCODERS[16].definitions.message(share(asset="TOOLONG"), SecurityUpdateAction.ADD, 1, True)


def news(text: str, headline: str = "Fato relevante", **changes: Any) -> events.News:
    fields: dict[str, Any] = {
        "security_id": None,
        "source": NewsSource.MARKET_SURVEILLANCE,
        "language": "pt",
        "news_id": 9,
        "orig_time_ns": T1,
        "headline": headline,
        "text": text,
        "url": "http://example.com/",
    }
    return events.News(**{**fields, **changes})


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=3000), version=st.sampled_from(VERSIONS))
def test_000_5_8_long_news_is_cut_into_parts(text, version):
    parts = [
        decoded(version, message)
        for message in ENCODERS[version].news.messages(news(text), 0x80, 0x80)
    ]
    joined = "".join(part["text"] or "" for part in parts)
    assert joined == text
    assert [part["partNumber"] for part in parts] == list(range(1, len(parts) + 1))
    for part in parts:
        assert part["partCount"] == len(parts)
        assert part["totalTextLength"] == len(text.encode())
        assert part["headline"] == "Fato relevante"
        assert part["uRLLink"] == "http://example.com/"
        assert (part["newsID"], part["securityID"], part["languageCode"]) == (9, None, "pt")
        assert part["matchEventIndicator"] == 0x80
        assert part.end <= 1400 - 16 - 4
    # No part could have been spared.
    assert len(parts) <= 1 + len(text.encode()) // 1200


def test_news_with_an_endless_headline_is_refused():
    with pytest.raises(EncodeError, match=r"headline and URL .* shorten them"):
        ENCODERS[16].news.messages(news("x", headline="h" * 1300), 0x80, 0x80)


@given(text=st.text(max_size=200), size=st.integers(min_value=4, max_value=50))
def test_text_is_never_cut_within_a_character(text, size):
    parts = list(cut_text(text.encode(), size))
    assert "".join(part.decode() for part in parts) == text
    assert all(len(part) <= size for part in parts)


@given(st.integers(-(10**12), 10**12))
def test_rescaling_rounds_to_the_nearest(mantissa):
    assert rescale(rescale(mantissa, 4, 8), 8, 4) == mantissa
    assert abs(rescale(mantissa, 8, 4) * 10_000 - mantissa) <= 5_000
    assert rescale(-mantissa, 8, 4) == -rescale(mantissa, 8, 4)
