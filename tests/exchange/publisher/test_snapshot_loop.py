"""The snapshot recovery stream: content of a loop, its time, and omissions."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from pregao.clock import SECOND
from pregao.exchange.engine.model.enums import (
    ImbalanceCondition,
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandType,
    PriceLimitType,
    SecurityUpdateAction,
    TradeCondition,
    TradingSession,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    ChangeOrderMbo,
    ChannelReset,
    ClosingPrice,
    DeleteOrderMbo,
    EmptyBook,
    ExecutionStatistics,
    HighPrice,
    LastTradePrice,
    LowPrice,
    MarketEvent,
    NewOrderMbo,
    OpeningPrice,
    PriceBand,
    SecurityDefinition,
    SecurityGroupPhase,
    SecurityStatus,
    SequenceReset,
    TheoreticalOpeningPrice,
    Trade,
    TradeBust,
)
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.loops import LoopPace, SnapshotWriter
from pregao.exchange.publisher.published_state import PublishedChannel
from pregao.exchange.publisher.publisher import ChannelPublisher
from pregao.umdf.phases import TradingEvent
from pregao.umdf.streams import Stream
from tests.exchange.feed_reader import (
    HEADER,
    ORDERS,
    PHASE,
    STATUS,
    VERSIONS,
    codec,
    loops,
    snapshots,
)
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, px, share

START = 1_780_000_000 * SECOND
REGULAR = TradingSession.REGULAR
CONDITION = int(TradeCondition.REGULAR_TRADE)
SLOW = LoopPace(1, 3600 * SECOND)
DAILY = OpenCloseSettlFlag.DAILY
PREVIOUS = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY


def order(
    number: int, security_id: int = SHARE, side: OrderSide = BUY, price: Any = 10
) -> NewOrderMbo:
    return NewOrderMbo(
        security_id, side, None if price is None else px(price), 5, number, 8, START, START
    )


def trade(trade_id: int, price: float, security_id: int = SHARE, **more: Any) -> Trade:
    fields: dict[str, Any] = {"trade_condition": CONDITION, "trd_sub_type": None, "day": 1, **more}
    return Trade(
        security_id,
        REGULAR,
        fields["trade_condition"],
        px(price),
        5,
        trade_id,
        1,
        2,
        fields["day"],
        fields["trd_sub_type"],
        START,
    )


def statistics(count: int) -> ExecutionStatistics:
    return ExecutionStatistics(SHARE, REGULAR, 1, 1000, px(10), None, count, START)


def phase(group: str, status: TradingStatus, event: Any = None) -> SecurityGroupPhase:
    return SecurityGroupPhase(group, REGULAR, status, event, 1, None, START)


def status(state: Any, event: TradingEvent, security_id: int = SHARE) -> SecurityStatus:
    return SecurityStatus(security_id, REGULAR, state, event, 1, START + 9, START)


class Stage:
    """A channel whose snapshot loops are inspected one by one."""

    def __init__(self, *instruments: Any, version: int = 16, rate: int = 1000, **more: Any) -> None:
        self.version = version
        self.publisher = ChannelPublisher(
            ChannelEndpoints.numbered(1),
            instruments or (share(),),
            START,
            encoder=FeedEncoder(version),
            snapshot_pace=LoopPace(rate, 0),
            definition_pace=SLOW,
            **more,
        )
        self.now = START
        self.payloads: list[bytes] = []

    def take(self, datagrams: Any) -> None:
        self.payloads += [x.payload for x in datagrams if x.stream is Stream.SNAPSHOT]

    def publish_items(self, *items: Any, event: bool = False) -> None:
        """Publish items a millisecond later."""
        self.now += SECOND // 1000
        self.take(self.publisher.publish([MarketEvent(list(items), event)], self.now))

    def run_until_loops(self, count: int) -> list[Any] | None:
        """Advance the clock until this number of loops has ended; return the last, or None."""
        deadline = self.now + 3 * SECOND
        while self.publisher.snapshots.loops < count:
            if self.now > deadline:
                return None
            self.now += SECOND // 1000
            self.take(self.publisher.advance(self.now))
        return loops(self.payloads, self.version)[count - 1]

    def running_loop(self) -> list[Any]:
        """The loop that is under way."""
        loop = self.run_until_loops(self.publisher.snapshots.loops + 1)
        assert loop is not None
        return loop

    def loop(self) -> list[Any]:
        """The first loop that begins from now on."""
        loop = self.run_until_loops(self.publisher.snapshots.loops + 2)
        assert loop is not None
        return loop

    def snapshot(self, security_id: int = SHARE) -> Any:
        """Messages of the next loop for an instrument, or None."""
        loop = self.run_until_loops(self.publisher.snapshots.loops + 2)
        return None if loop is None else snapshots(loop, self.version).get(security_id)

    def figures(self, security_id: int = SHARE) -> list[str]:
        """Names of the statistics of an instrument in the next loop."""
        shown = self.snapshot(security_id)["figures"]
        names = [codec(self.version).schema.by_id[template].name for template, _ in shown]
        return sorted(name.rsplit("_", 1)[0] for name in names)


def two_instruments() -> PublishedChannel:
    publisher = ChannelPublisher(
        ChannelEndpoints.numbered(1), [share(1111), share(2222)], START, snapshot_pace=SLOW
    )
    state = publisher.state
    state.instruments[1111].rpt_seq = 6998 - 10
    state.instruments[2222].rpt_seq = 8000 - 8
    first: list[Any] = [
        order(1, 1111),
        order(2, 1111),
        *(order(number, 1111, SELL, 11) for number in (3, 4, 5)),
        ClosingPrice(1111, 10_0000_0000, PREVIOUS, None, 1, START),
        OpeningPrice(1111, px(9.90), None, 1, START),
        trade(10, 10.00, 1111),
        ExecutionStatistics(1111, REGULAR, 1, 1000, px(10), None, 1, START),
        status(TradingStatus.PAUSE, TradingEvent.SECURITY_STATUS_CHANGE, 1111),
    ]
    second: list[Any] = [
        order(6, 2222),
        *(order(number, 2222, SELL, 21) for number in (7, 8)),
        OpeningPrice(2222, px(15.50), None, 1, START),
        ClosingPrice(2222, 18_0000_0000, PREVIOUS, None, 1, START),
        ExecutionStatistics(2222, REGULAR, 1, 2000, px(20), None, 1, START),
        trade(10, 20.00, 2222),
        status(TradingStatus.PAUSE, TradingEvent.SECURITY_STATUS_CHANGE, 2222),
    ]
    publisher.publish([MarketEvent(first), MarketEvent(second)], START)
    return state


def test_000_7_2_the_two_headers():
    state = two_instruments()
    encoder = FeedEncoder(16)
    processed = (1234, 703)
    loop = SnapshotWriter(encoder, state, lambda: processed).begin(START)
    assert loop is not None
    messages = [codec(16).decode(next(loop)) for _ in range(7)]
    # Meanwhile a packet went out that had nothing for the second instrument.
    processed = (1234, 704)
    messages += [codec(16).decode(message) for message in loop]
    first, second = (x.values for x in messages if x.message.id == HEADER)
    assert first == {
        "securityID": 1111,
        "lastMsgSeqNumProcessed": 703,
        "totNumReports": 2,
        "totNumBids": 2,
        "totNumOffers": 3,
        "totNumStats": 5,
        "lastRptSeq": 6998,
        "lastSequenceVersion": 1234,
    }
    assert second == {
        "securityID": 2222,
        "lastMsgSeqNumProcessed": 704,
        "totNumReports": 2,
        "totNumBids": 1,
        "totNumOffers": 2,
        "totNumStats": 5,
        "lastRptSeq": 8000,
        "lastSequenceVersion": 1234,
    }
    names = [message.message.name for message in messages[2:7]]
    assert sorted(names) == [
        "ClosingPrice_17",
        "ExecutionStatistics_56",
        "LastTradePrice_27",
        "OpeningPrice_15",
        "SecurityStatus_3",
    ]
    prices = {x.message.id: x["mDEntryPx"] for x in messages[2:7] if "mDEntryPx" in x.values}
    assert prices == {17: Decimal(10), 15: Decimal("9.9"), 27: Decimal(10)}


@pytest.mark.parametrize("version", VERSIONS)
def test_000_7_3_orders_are_sent_twenty_to_a_message(version):
    stage = Stage(version=version)
    bids = [order(number, price=10 - number / 100) for number in range(1, 15)]
    offers = [order(number, side=SELL, price=10 + number / 100) for number in range(15, 39)]
    stage.publish_items(*reversed(bids), *offers, event=True)
    loop = stage.loop()
    messages = [x for packet in loop for x in packet.messages if x.message.id == ORDERS]
    assert [len(message["noMDEntries"]) for message in messages] == [20, 18]
    entries = [entry for message in messages for entry in message["noMDEntries"]]
    assert [entry["secondaryOrderID"] for entry in entries] == list(range(1, 39))
    assert [entry["mDEntryType"] for entry in entries] == ["BID"] * 14 + ["OFFER"] * 24
    assert entries[0]["mDEntryPx"] == Decimal("9.99")
    assert entries[0]["enteringFirm"] == 8
    assert entries[0]["mDInsertTimestamp"] == START
    header = snapshots(loop, version)[SHARE]["header"]
    assert (header["totNumBids"], header["totNumOffers"], header["lastRptSeq"]) == (14, 24, 38)


def test_orders_without_a_price_come_first_in_a_snapshot():
    stage = Stage()
    stage.publish_items(order(1, price=11), order(3, price=None), order(2, price=None), event=True)
    orders = stage.snapshot()["orders"]
    assert [entry["secondaryOrderID"] for entry in orders] == [2, 3, 1]
    assert [entry["mDEntryPx"] for entry in orders] == [None, None, Decimal(11)]


def test_a_changed_order_is_shown_in_its_current_state():
    stage = Stage()
    stage.publish_items(order(1), event=True)
    stage.publish_items(
        ChangeOrderMbo(SHARE, BUY, px(10), 2, 5, 1, 8, START, START + 1), event=True
    )
    (entry,) = stage.snapshot()["orders"]
    assert (entry["mDEntrySize"], entry["mDInsertTimestamp"]) == (2, START)
    stage.publish_items(DeleteOrderMbo(SHARE, BUY, px(10), 2, 1, START), event=True)
    assert stage.snapshot() is None


def test_000_14_4_group_phases_and_states():
    stage = Stage(share(), share(OTHER), share(3, security_group="YY"))
    stage.publish_items(phase("XX", TradingStatus.OPEN), phase("ZZ", TradingStatus.CLOSE))
    stage.publish_items(status(TradingStatus.PAUSE, TradingEvent.SECURITY_STATUS_CHANGE))
    loop = stage.loop()
    phases = [x.values for packet in loop for x in packet.messages if x.message.id == PHASE]
    # A group without instruments on the channel is not published.
    assert [(x["securityGroup"], x["tradingSessionSubID"]) for x in phases] == [("XX", "OPEN")]
    found = snapshots(loop)
    assert set(found) == {SHARE, OTHER}
    (own,) = (values for _, values in found[SHARE]["figures"])
    assert own["securityTradingStatus"] == "PAUSE"
    assert own["securityTradingEvent"] == "SECURITY_STATUS_CHANGE"
    assert own["tradSesOpenTime"] == START + 9
    # An instrument that follows its group says so with a null.
    (following,) = (values for _, values in found[OTHER]["figures"])
    assert following["securityTradingStatus"] is None
    assert following["securityTradingEvent"] == "SECURITY_REJOINS_SECURITY_GROUP_STATUS"


@pytest.mark.parametrize("version", VERSIONS)
def test_001_9_2_3_a_status_in_a_snapshot_always_has_its_event(version):
    stage = Stage(share(), share(OTHER), version=version)
    stage.publish_items(phase("XX", TradingStatus.OPEN))
    expected = [
        (None, None, "SECURITY_REJOINS_SECURITY_GROUP_STATUS"),
        (TradingStatus.PAUSE, "SECURITY_STATUS_CHANGE", "SECURITY_STATUS_CHANGE"),
        (TradingStatus.OPEN, "TRADING_SESSION_CHANGE", "SECURITY_STATUS_CHANGE"),
        (
            TradingStatus.OPEN,
            "SECURITY_REJOINS_SECURITY_GROUP_STATUS",
            "SECURITY_REJOINS_SECURITY_GROUP_STATUS",
        ),
    ]
    for own, event, shown in expected:
        if own is not None:
            stage.publish_items(status(own, TradingEvent[event]))
        found = snapshots(stage.loop(), version)
        events = {
            security_id: [
                values["securityTradingEvent"]
                for template, values in snapshot["figures"]
                if template == STATUS
            ]
            for security_id, snapshot in found.items()
        }
        assert events == {SHARE: [shown], OTHER: ["SECURITY_REJOINS_SECURITY_GROUP_STATUS"]}
    stage.publish_items(
        status(TradingStatus.OPEN, TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS)
    )
    ((_, again),) = stage.snapshot()["figures"]
    assert again["securityTradingStatus"] is None


def test_000_7_4_1_last_rpt_seq_is_null_where_only_the_group_gave_a_state():
    stage = Stage(share(), share(OTHER), first_number=42, sequence_version=7)
    stage.publish_items(phase("XX", TradingStatus.OPEN))
    stage.publish_items(order(1, OTHER), event=True)
    found = snapshots(stage.loop())
    header = found[SHARE]["header"]
    assert header["lastRptSeq"] is None
    assert (header["totNumBids"], header["totNumOffers"], header["totNumStats"]) == (0, 0, 1)
    assert (header["lastMsgSeqNumProcessed"], header["lastSequenceVersion"]) == (43, 7)
    assert found[OTHER]["header"]["lastRptSeq"] == 1


def test_an_instrument_without_state_has_no_snapshot():
    stage = Stage(share(), share(OTHER))
    stage.publish_items(order(1), event=True)
    found = snapshots(stage.loop())
    assert set(found) == {SHARE}
    assert found[SHARE]["header"]["totNumReports"] == 1


def run_until_first_header(stage: Stage) -> None:
    """Begin a loop of one instrument with many packets."""
    stage.loop()
    before = len(stage.payloads)
    while len(stage.payloads) == before:
        stage.now += SECOND // 1000
        stage.take(stage.publisher.advance(stage.now))


@pytest.mark.parametrize("reason", ["deleted", "emptied"])
def test_000_7_2_a_header_alone_keeps_the_count_of_the_loop(reason):
    stage = Stage(share(), share(OTHER))
    stage.publish_items(*(order(number) for number in range(1, 101)), event=True)
    stage.publish_items(order(200, OTHER), HighPrice(OTHER, px(10), 1, START), event=True)
    run_until_first_header(stage)
    if reason == "deleted":
        stage.publish_items(SecurityDefinition(SecurityUpdateAction.DELETE, share(OTHER), START))
    else:
        stage.publish_items(EmptyBook(OTHER, START))
    loop = snapshots(stage.running_loop())
    assert loop[SHARE]["header"]["lastMsgSeqNumProcessed"] < stage.publisher.incremental.last_number
    header = loop[OTHER]["header"]
    assert header == {
        "securityID": OTHER,
        "lastMsgSeqNumProcessed": stage.publisher.incremental.last_number,
        "totNumReports": 2,
        "totNumBids": 0,
        "totNumOffers": 0,
        "totNumStats": 0,
        "lastRptSeq": None,
        "lastSequenceVersion": 1,
    }
    after = stage.snapshot(OTHER)
    if reason == "deleted":
        assert after is None
    else:
        # The figures were not void: only the book was.
        assert after["header"]["totNumStats"] == 1
        assert after["header"]["lastRptSeq"] is None
        stage.publish_items(order(201, OTHER), event=True)
        assert stage.snapshot(OTHER)["header"]["lastRptSeq"] == 1


def test_each_snapshot_is_complete_as_of_the_packet_it_names():
    """A book that changes while its snapshot is sent packet by packet is sent as of its start."""
    stage = Stage()
    stage.publish_items(*(order(number) for number in range(1, 301)), event=True)
    run_until_first_header(stage)
    moment = stage.publisher.incremental.last_number
    for number in range(1, 5):
        stage.publish_items(DeleteOrderMbo(SHARE, BUY, px(10), 5, number, START), event=True)
    snapshot = snapshots(stage.running_loop())[SHARE]
    assert snapshot["header"]["lastMsgSeqNumProcessed"] == moment
    assert snapshot["header"]["lastRptSeq"] == 300
    assert len(snapshot["orders"]) == 300
    assert len(stage.snapshot()["orders"]) == 296


def test_the_snapshot_knows_the_sequence_version_of_the_incremental_stream():
    stage = Stage(sequence_version=65_534)
    stage.publish_items(order(1), event=True)
    assert stage.snapshot()["header"]["lastSequenceVersion"] == 65_534
    stage.publish_items(SequenceReset(1))
    header = stage.snapshot()["header"]
    assert (header["lastSequenceVersion"], header["lastMsgSeqNumProcessed"]) == (1, 0)


def test_a_channel_reset_takes_the_books_out_of_the_snapshot_and_leaves_the_figures():
    stage = Stage()
    stage.publish_items(order(1), HighPrice(SHARE, px(10), 1, START), event=True)
    stage.publish_items(ChannelReset(1, START))
    snapshot = stage.snapshot()
    assert snapshot["orders"] == []
    assert [template for template, _ in snapshot["figures"]] == [24]


# Figures


def test_the_last_trade_is_published_as_last_trade_price():
    stage = Stage()
    stage.publish_items(trade(10, 20.50), event=True)
    ((template, values),) = stage.snapshot()["figures"]
    assert template == 27
    assert (values["mDEntryPx"], values["tradeID"]) == (Decimal("20.5"), 10)
    assert values["tradeCondition"] == CONDITION
    assert values["mDEntryTimestamp"] == START
    assert values["matchEventIndicator"] == 0x80


def last_price(stage: Stage) -> Decimal | None:
    snapshot = stage.snapshot()
    shown = [] if snapshot is None else snapshot["figures"]
    return next((values["mDEntryPx"] for template, values in shown if template == 27), None)


def test_trades_that_are_not_the_last_price_leave_it_alone():
    stage = Stage()
    stage.publish_items(trade(10, 20), event=True)
    out_of_sequence = CONDITION | TradeCondition.OUT_OF_SEQUENCE
    stage.publish_items(trade(20, 5, trade_condition=out_of_sequence), event=True)
    stage.publish_items(trade(30, 6, trd_sub_type=TrdSubType.LEG_TRADE), event=True)
    assert last_price(stage) == 20
    stage.publish_items(trade(40, 21), event=True)
    stage.publish_items(trade(10, 19), event=True)  # a correction of the first one
    assert last_price(stage) == 21
    stage.publish_items(trade(10, 22, day=2), event=True)  # the first one of the next day
    assert last_price(stage) == 22
    adjusted = LastTradePrice(SHARE, REGULAR, 0, px(23), 1, 10, None, None, 2, None, START)
    stage.publish_items(adjusted)
    assert last_price(stage) == 23


def test_000_19_busts_change_prices_only_when_no_trade_is_left():
    stage = Stage()
    stage.publish_items(trade(10, 20), trade(20, 21), statistics(2), event=True)
    stage.publish_items(
        TradeBust(SHARE, REGULAR, px(21), 5, 20, 1, START), statistics(1), event=True
    )
    assert last_price(stage) == 21
    stage.publish_items(
        TradeBust(SHARE, REGULAR, px(20), 5, 10, 1, START), statistics(0), event=True
    )
    assert last_price(stage) is None


def test_withdrawn_figures_leave_the_snapshot():
    stage = Stage()
    figures = [
        OpeningPrice(SHARE, 1, None, 1, START),
        HighPrice(SHARE, 2, 1, START),
        LowPrice(SHARE, 1, 1, START),
        TheoreticalOpeningPrice(SHARE, 1, 1, 1, START),
        AuctionImbalance(SHARE, ImbalanceCondition.BALANCED, 1, START),
    ]
    stage.publish_items(order(1), *figures, event=True)
    assert len(stage.figures()) == 5
    stage.publish_items(
        OpeningPrice(SHARE, 1, None, 1, START, deleted=True),
        HighPrice(SHARE, 2, 1, START, deleted=True),
        LowPrice(SHARE, 1, 1, START, deleted=True),
        TheoreticalOpeningPrice(SHARE, None, None, 1, START, deleted=True),
        AuctionImbalance(SHARE, ImbalanceCondition.BALANCED, None, START, deleted=True),
        event=True,
    )
    assert stage.figures() == []


def test_bands_of_different_types_coexist():
    stage = Stage()
    for kind in (*PriceBandType, PriceBandType.HARD_LIMIT):
        stage.publish_items(
            PriceBand(SHARE, kind, PriceLimitType.PRICE_UNIT, None, 1, 2, None, START)
        )
    stage.publish_items(PriceBand(SHARE, None, None, None, None, None, 5, START))
    assert stage.figures() == ["PriceBand"] * 5


def test_the_close_of_the_day_becomes_that_of_the_previous_day():
    stage = Stage()
    stage.publish_items(ClosingPrice(SHARE, 1, PREVIOUS, None, 1, START))
    stage.publish_items(ClosingPrice(SHARE, 2, DAILY, None, 1, START))
    assert stage.figures() == ["ClosingPrice"] * 2
    stage.publish_items(ClosingPrice(SHARE, 2, PREVIOUS, None, 2, START))
    assert stage.figures() == ["ClosingPrice"]


FIGURES = [
    OpeningPrice(SHARE, 1, None, 1, START),
    HighPrice(SHARE, 2, 1, START),
    LowPrice(SHARE, 1, 1, START),
    statistics(2),
    trade(10, 1),
    TheoreticalOpeningPrice(SHARE, 1, 1, 1, START),
    ClosingPrice(SHARE, 1, PREVIOUS, None, 1, START),
]


@pytest.mark.parametrize(
    "change",
    [
        phase("XX", TradingStatus.RESERVED, TradingEvent.TRADING_SESSION_CHANGE),
        status(TradingStatus.RESERVED, TradingEvent.TRADING_SESSION_CHANGE),
    ],
    ids=["group", "instrument"],
)
def test_000_14_3_a_new_session_resets_the_figures_of_the_old_one(change):
    stage = Stage()
    stage.publish_items(phase("XX", TradingStatus.RESERVED))
    stage.publish_items(*FIGURES, event=True)
    assert len(stage.figures()) == 8
    stage.publish_items(change)
    assert stage.figures() == ["ClosingPrice", "SecurityStatus"]
    for values in (values for template, values in stage.snapshot()["figures"] if template == 3):
        # Repeated in the snapshot, it must not reset other instruments' values.
        assert values["securityTradingEvent"] != "TRADING_SESSION_CHANGE"


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        (phase("XX", TradingStatus.OPEN), False),
        (phase("XX", TradingStatus.FINAL_CLOSING_CALL), True),
        (phase("YY", TradingStatus.OPEN), True),
        (status(TradingStatus.PAUSE, TradingEvent.SECURITY_STATUS_CHANGE), False),
        (status(TradingStatus.RESERVED, TradingEvent.SECURITY_STATUS_CHANGE), True),
    ],
)
def test_000_13_10_1_the_theoretical_price_ends_with_the_auction(change, stands):
    stage = Stage()
    stage.publish_items(phase("XX", TradingStatus.RESERVED))
    theoretical = TheoreticalOpeningPrice(SHARE, 1, 1, 1, START)
    balance = AuctionImbalance(SHARE, ImbalanceCondition.BALANCED, 1, START)
    stage.publish_items(order(1), theoretical, balance, event=True)
    stage.publish_items(change)
    found = {"TheoreticalOpeningPrice", "AuctionImbalance"} & set(stage.figures())
    assert bool(found) is stands


def test_an_instrument_in_its_own_auction_keeps_its_theoretical_price():
    stage = Stage()
    stage.publish_items(phase("XX", TradingStatus.OPEN))
    stage.publish_items(status(TradingStatus.RESERVED, TradingEvent.SECURITY_STATUS_CHANGE))
    stage.publish_items(TheoreticalOpeningPrice(SHARE, 1, 1, 1, START), event=True)
    stage.publish_items(phase("XX", TradingStatus.OPEN))
    assert "TheoreticalOpeningPrice" in stage.figures()


# Pace


@pytest.mark.parametrize("rate", [1, 50, 1000])
def test_packets_are_sent_at_the_requested_rate(rate):
    stage = Stage(share(), share(OTHER), rate=rate)
    stage.publish_items(*(order(number) for number in range(1, 200)), event=True)
    sent = stage.publisher.advance(stage.now + 4 * SECOND)
    times = [x.time_ns for x in sent if x.stream is Stream.SNAPSHOT]
    # There was nothing to publish at the start: it checks again after a second.
    assert times[0] == START + SECOND
    assert len(times) == (stage.now + 4 * SECOND - times[0]) * rate // SECOND + 1
    steps = {after - before for before, after in pairwise(times)}
    assert steps == {SECOND // rate}


def test_a_loop_ends_with_a_separate_packet_that_counts_them():
    stage = Stage(share(), share(OTHER))
    stage.publish_items(*(order(number) for number in range(1, 120)), order(200, OTHER), event=True)
    loop = stage.loop()
    assert loop[-1].templates == [1]
    assert loop[-1].number == len(loop) > 4
    assert all(packet.size > 600 for packet in loop[:-2])
