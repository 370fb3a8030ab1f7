"""One market on both feeds: the legacy one gives the same books, trades and states."""

from __future__ import annotations

import os
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model import commands
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import PriceBandType, PriceLimitType, TradingStatus
from pregao.exchange.engine.model.events import (
    ForwardTrade,
    MarketEvent,
    PriceBand,
    SequenceReset,
    Trade,
    TradeBust,
)
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    AmendTrade,
    BustTrade,
    EnterTrade,
    RemoveInstrument,
)
from pregao.exchange.publisher.legacy.books import DepthSide
from pregao.exchange.publisher.legacy.channel_publisher import LegacyChannelPublisher
from pregao.exchange.publisher.loops import LoopPace
from pregao.feed.legacy.book_updates import CHANGE, DELETE, NEW, OVERLAY
from pregao.feed.legacy.channel import LegacyStreamFollower, LegacyStreamSettings
from pregao.feed.legacy.state import StatisticKey
from pregao.legacy.messages import MessageReader, MsgType
from pregao.legacy.reassembly import AssembledMessage, read_chunks
from pregao.legacy.streams import LegacyStream
from pregao.legacy.times import timestamp_ns
from pregao.umdf.phases import GroupKey, Status
from pregao.units import Side as BookSide
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, share
from tests.exchange.publisher.test_publisher_replay import (
    SECURITIES,
    SPREAD,
    START_NS,
    STEP_NS,
    act,
    steps,
)

DEPTHS = [None, 5, 1]
EXAMPLES = int(os.environ.get("PREGAO_LEGACY_EXAMPLES", "10"))


class LegacyBroadcast:
    """A floor whose events go out on the legacy feed, and a channel that follows it."""

    def __init__(self, depth: int | None) -> None:
        self.depth = depth
        instruments = (
            share(),
            share(OTHER, previous_close=10_0000_0000),
            share(SPREAD, security_group="YY", implied_market_indicator=True),
        )
        self.floor = Floor(*instruments, phase=TradingStatus.OPEN)
        self.floor.now = START_NS
        self.publisher = LegacyChannelPublisher(
            1, instruments, START_NS, market_depth=depth, pace=LoopPace(200, 0)
        )
        self.orders: list[tuple[int, int, int]] = []
        self.sent: list[tuple[LegacyStream, int, bytes]] = []
        self.trades: list[Any] = []
        self.channel = self.new_channel(from_the_start=True)
        self.resets = 0
        self.units([MarketEvent(list(self.floor.engine.group_phases()), False)])

    def new_channel(self, *, from_the_start: bool = False) -> LegacyStreamFollower:
        return LegacyStreamFollower(
            LegacyStreamSettings(market_depth=self.depth, from_the_start=from_the_start)
        )

    def units(self, units: Any) -> None:
        self.take(self.publisher.publish(units, self.floor.now))

    def take(self, sent: Any) -> None:
        self.sent += sent
        for stream, time_ns, datagram in sent:
            self.channel.receive(stream, "A", datagram, time_ns)

    def do(self, command: Any) -> None:
        try:
            outcome = self.floor.do(command, STEP_NS)
        except UsageError:
            return  # market operations asked for something that cannot be; nothing changed
        for unit in outcome.market:
            self.resets += sum(isinstance(item, SequenceReset) for item in unit.items)
            self.trades += [
                (item.trade_id, None if isinstance(item, TradeBust) else item.size)
                for item in unit.items
                if isinstance(item, (Trade, ForwardTrade, TradeBust))
            ]
        self.units(outcome.market)

    def rest(self, time_ns: int = SECOND) -> None:
        self.floor.now += time_ns
        self.take(self.publisher.advance(self.floor.now))

    def truth(self, security_id: int, side: BookSide) -> list[Any]:
        view = self.floor.engine.book(security_id)
        entries = view.bids if side is BookSide.BID else view.offers
        if self.depth is None:
            return [(each.price, each.size, each.secondary_order_id, each.firm) for each in entries]
        levels: dict[int | None, list[int]] = {}
        for each in entries:
            level = levels.setdefault(each.price, [0, 0])
            level[0] += each.size
            level[1] += 1
        return [(price, size, count) for price, (size, count) in levels.items()][: self.depth]

    def followed(
        self, channel: LegacyStreamFollower, security_id: int, side: BookSide
    ) -> list[Any]:
        book = channel.book(security_id)
        if book is None:
            return []
        if self.depth is None:
            return [(each.price, each.size, each.order_id, each.firm) for each in book.orders(side)]
        return [(each.price, each.size, each.orders) for each in book.levels(side)]

    def check(self, channel: LegacyStreamFollower, *, all_valid: bool = True) -> None:
        for security_id in SECURITIES:
            state = channel.book_state(security_id)
            if state not in (State.VALID, State.EMPTY, State.BUILDING):
                assert not all_valid, (security_id, state)
                continue
            for side in BookSide:
                expected = self.truth(security_id, side)
                assert self.followed(channel, security_id, side) == expected


@pytest.mark.parametrize("depth", DEPTHS)
@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(steps=steps)
def test_the_legacy_feed_gives_the_engines_books_and_trades(depth, steps):
    broadcast = LegacyBroadcast(depth)
    for step in steps:
        act(broadcast, step)
        # After a stream reset books are confirmed by the next loop of snapshots.
        broadcast.check(broadcast.channel, all_valid=False)
    broadcast.rest(2 * SECOND)
    broadcast.check(broadcast.channel)
    trades = [(int(each.trade_id), each.size) for each in broadcast.channel.state.take_trades()]
    assert trades == broadcast.trades
    check_states(broadcast)


def check_states(broadcast: LegacyBroadcast) -> None:
    for security_id in SECURITIES:
        own = broadcast.floor.engine.book(security_id).security_status.status
        phases = broadcast.channel.state.phases
        assert phases.is_separate(security_id) == (own is not None)
        if own is not None:
            assert phases.status(security_id).name == own.name


def test_002_15_6_a_held_instrument_leaves_its_group_before_it_opens():
    broadcast = LegacyBroadcast(None)
    rules = AuctionRules(random_ns=30 * SECOND)
    broadcast.do(commands.SetGroupPhase("XX", TradingStatus.RESERVED, auction=rules))
    broadcast.do(commands.SetGroupPhase("XX", TradingStatus.OPEN))
    phases = broadcast.channel.state.phases
    assert (phases.status(SHARE), phases.status(OTHER)) == (Status.RESERVED, Status.RESERVED)
    assert phases.phase(GroupKey("XX")) is Status.OPEN
    check_states(broadcast)


def test_002_15_6_an_own_state_stated_again_is_no_return_to_the_group():
    broadcast = LegacyBroadcast(None)
    broadcast.do(commands.SetGroupPhase("XX", TradingStatus.RESERVED))
    # As the extensions of an opening auction are published.
    for _ in range(3):
        broadcast.do(commands.SetSecurityStatus(SHARE, TradingStatus.RESERVED))
        check_states(broadcast)
    broadcast.do(commands.SetGroupPhase("XX", TradingStatus.OPEN))
    check_states(broadcast)
    broadcast.do(commands.RejoinGroup(SHARE))
    check_states(broadcast)


@pytest.mark.parametrize("depth", DEPTHS)
@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(steps=steps)
def test_no_book_that_differs_is_called_valid_over_lossy_lines(depth, steps):
    broadcast = LegacyBroadcast(depth)
    draw = random.Random(len(steps))
    late, lossy = broadcast.new_channel(), broadcast.new_channel(from_the_start=True)
    half = len(steps) // 2
    before_late = lost = at = compared = 0
    for number, step in enumerate(steps):
        act(broadcast, step)
        if number < half:
            before_late = broadcast.resets
        for stream, time_ns, datagram in broadcast.sent[at:]:
            if number >= half:
                late.receive(stream, "A", datagram, time_ns)
            for feed in "AB":
                if draw.random() < 0.75:
                    lossy.receive(stream, feed, datagram, time_ns)
                else:
                    lost += 1
        at = len(broadcast.sent)
        for channel, resets in ((late, before_late), (lossy, 0)):
            channel.tick(broadcast.floor.now + SECOND)
            # A state is as of a packet key: later changes are not known yet.
            position = (1 + broadcast.resets - resets, broadcast.publisher.writer.last_number)
            if channel.follower.position == position:
                compared += 1
                broadcast.check(channel, all_valid=False)
    assert lost
    assert compared


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_late_joiner_is_synchronized_by_a_complete_loop(depth):
    broadcast = LegacyBroadcast(depth)
    broadcast.do(new(broadcast, SHARE, BUY, 10, 99_000))
    broadcast.do(new(broadcast, OTHER, SELL, 10, 101_000))
    broadcast.rest(2 * SECOND)
    at = len(broadcast.sent)
    late = broadcast.new_channel()
    broadcast.do(new(broadcast, SHARE, BUY, 5, 99_100))
    broadcast.rest(2 * SECOND)
    for stream, time_ns, datagram in broadcast.sent[at:]:
        late.receive(stream, "A", datagram, time_ns)
    assert late.synchronized
    broadcast.check(late)
    assert late.state.complete
    assert {each.symbol for each in late.state.instruments.values()} == {
        each.symbol for each in broadcast.publisher.state.definitions.values()
    }


def new(broadcast, security_id, side, quantity, price):
    broadcast.floor.next_id += 1
    return commands.NewOrder(1, 7, broadcast.floor.next_id, security_id, side, quantity, price)


def test_deep_books_are_sent_in_chunks():
    broadcast = LegacyBroadcast(None)
    for number in range(120):
        broadcast.do(new(broadcast, SHARE, BUY, 1 + number, 99_000))
    broadcast.rest(2 * SECOND)
    late = broadcast.new_channel()
    recovery = [each for each in broadcast.sent if each[0] is LegacyStream.MARKET_RECOVERY]
    assert max(len(datagram) for _, _, datagram in recovery) == 1420
    for stream, time_ns, datagram in broadcast.sent:
        late.receive(stream, "A", datagram, time_ns)
    broadcast.check(late)


def test_silent_streams_send_heartbeats_every_ten_seconds():
    publisher = LegacyChannelPublisher(1, (), START_NS)
    sent = publisher.advance(START_NS + 35 * SECOND)
    for stream in LegacyStream:
        times = [(time_ns - START_NS) // SECOND for each, time_ns, _ in sent if each is stream]
        assert times == [10, 20, 30]


def test_002_15_2_an_empty_loop_is_heartbeats_and_a_loop_ends_with_a_reset():
    def sent_by(publisher, stream, until_ns):
        reader, found = MessageReader(), []
        for each, _, payload in publisher.advance(until_ns):
            if each is stream:
                (chunk,) = read_chunks(payload)
                message = reader.read(AssembledMessage(chunk.number, chunk.payload))
                found.append((message.type, message.number, message.values.get("NewSeqNo")))
        return found

    heartbeats = [(MsgType.HEARTBEAT, 1, None)] * 3
    for stream in (LegacyStream.MARKET_RECOVERY, LegacyStream.INSTRUMENT_DEFINITION):
        publisher = LegacyChannelPublisher(1, (), START_NS)
        assert sent_by(publisher, stream, START_NS + 35 * SECOND) == heartbeats
    publisher = LegacyChannelPublisher(1, (share(),), START_NS, pace=LoopPace(1, 0))
    found = sent_by(publisher, LegacyStream.INSTRUMENT_DEFINITION, START_NS + 4 * SECOND)
    listed, reset = (MsgType.SECURITY_LIST, 1, None), (MsgType.SEQUENCE_RESET, 2, 1)
    assert found[:4] == [listed, reset, listed, reset]


def test_002_15_11_published_times_have_milliseconds():
    for time, digits in ((20130812162109364, 162109364), (20130812000000364, 364)):
        moment_ns = timestamp_ns(time)
        instruments = (share(),)
        floor = Floor(*instruments)
        floor.now = moment_ns
        publisher = LegacyChannelPublisher(1, instruments, moment_ns)
        floor.order(BUY, 100, 10)
        found = []
        for stream, _, payload in publisher.publish(floor.last.market, moment_ns):
            if stream is LegacyStream.INCREMENTAL:
                (chunk,) = read_chunks(payload)
                message = MessageReader().read(AssembledMessage(chunk.number, chunk.payload))
                found += message.values["MDEntries"]
        names = ("MDEntryDate", "MDEntryTime", "MDInsertDate", "MDInsertTime")
        (order,) = [each for each in found if each["MDEntryType"] == "0"]
        assert [order[name] for name in names] == [20130812, digits] * 2


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_shown_levels_of_a_side_are_always_its_best(depth):
    draw = random.Random(depth)
    side = DepthSide(SELL, depth)
    orders: list[tuple[int, int]] = []
    rows: list[Any] = []
    for _ in range(2000):
        if orders and draw.random() < 0.5:
            price, size = orders.pop(draw.randrange(len(orders)))
            changes = side.add(price, -size, -1)
        else:
            price, size = draw.randrange(10), draw.randrange(1, 5)
            orders.append((price, size))
            changes = side.add(price, size, 1)
        for action, position, row in changes:
            if action == DELETE:
                del rows[position - 1]
            elif action == NEW:
                rows.insert(position - 1, row)
                del rows[depth:]
            elif action == OVERLAY:
                rows = [row]
            else:
                assert action == CHANGE
                assert rows[position - 1].price == row.price
                rows[position - 1] = row
        best = sorted({price for price, _ in orders})[:depth]
        assert rows == [
            (
                price,
                sum(size for each, size in orders if each == price),
                sum(each == price for each, _ in orders),
            )
            for price in best
        ]
        assert rows == side.shown


# What 002 says of volumes, averages and bands

reported = st.lists(
    st.tuples(st.sampled_from("NNNCBA"), st.integers(1, 40), st.integers(1, 9)),
    min_size=6,
    max_size=12,
)
"""Trades, crosses, busts and amendments: kind, price in ticks above 9.00, quantity."""


@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(steps=reported)
def test_002_7_the_average_price_excludes_crosses_and_15_10_trades_state_the_volume(steps):
    broadcast = LegacyBroadcast(None)
    state = broadcast.channel.state
    held: dict[int, tuple[int, int, bool]] = {}
    for kind, ticks, quantity in steps:
        price = 90_000 + 100 * ticks
        chosen = sorted(held)[ticks % len(held)] if held else None
        if kind in "NC":
            broadcast.do(EnterTrade(SHARE, price, quantity, 7, 8, crossed=kind == "C"))
            (trade,) = state.take_trades()
            held[int(trade.trade_id)] = (price, quantity, kind == "C")
            assert trade.volume == sum(size for _, size, _ in held.values())
        elif chosen is not None and kind == "B":
            broadcast.do(BustTrade(SHARE, chosen))
            del held[chosen]
            assert [trade.volume for trade in state.take_trades()] == [None]
        elif chosen is not None:
            broadcast.do(AmendTrade(SHARE, chosen, price=price, quantity=quantity))
            held[chosen] = (price, quantity, held[chosen][2])
            # A correction does not add its quantity.
            assert [trade.volume for trade in state.take_trades()] == [None]
        found = state.statistics.get(SHARE, {})
        counted = [(price, size) for price, size, crossed in held.values() if not crossed]
        average = found.get(StatisticKey("9", "E"))
        if not counted:
            assert average is None
        else:
            exact = Fraction(sum(price * size for price, size in counted))
            exact /= sum(size for _, size in counted)
            assert abs(Fraction(average["MDEntryPx"]) * 10_000 - exact) <= Fraction(1, 2)
        if volume := found.get(StatisticKey("B", "E")):
            assert volume["TradeVolume"] == sum(size for _, size, _ in held.values())
            assert volume["MDEntrySize"] == len(held)


def test_002_15_10_an_instrument_that_is_listed_again_has_no_volume_of_before():
    broadcast = LegacyBroadcast(None)
    for command in (
        EnterTrade(SHARE, 90_000, 5, 7, 8), EnterTrade(SHARE, 90_000, 5, 7, 8),
        RemoveInstrument(SHARE), AddInstrument(share()), EnterTrade(SHARE, 90_000, 3, 7, 8),
    ):  # fmt: skip
        broadcast.do(command)
    assert [trade.volume for trade in broadcast.channel.state.take_trades()] == [5, 10, 3]


def bands(channel):
    found = channel.state.statistics[SHARE]
    return {
        key.kind: tuple(
            None if each.get(name) is None else int(each[name] * 100)
            for name in ("LowLimitPrice", "HighLimitPrice", "TradingReferencePrice")
        )
        for key, each in found.items()
        if key.entry_type == "g"
    }


def test_002_10_9_bands_have_the_codes_of_the_legacy_feed():
    broadcast = LegacyBroadcast(None)
    prices, now = PriceLimitType.PRICE_UNIT, START_NS
    for at, kind in enumerate(PriceBandType):
        band = PriceBand(SHARE, kind, prices, None, 90_000, 110_000 + 100 * at, None, now)
        broadcast.units([MarketEvent([band])])
    # The reference price is part of the oscillation tunnel; static limits have no code.
    expected = {0: (900, 1100, None), 1: (900, 1102, None), 2: (900, 1101, None)}
    assert bands(broadcast.channel) == expected
    reference = PriceBand(SHARE, None, None, None, None, None, 10_0000_0000, now)
    broadcast.units([MarketEvent([reference])])
    expected[0] = (900, 1100, 1000)
    assert bands(broadcast.channel) == expected
    broadcast.rest(20 * SECOND)
    late = broadcast.new_channel()
    for stream, time_ns, datagram in broadcast.sent:
        if stream is not LegacyStream.INCREMENTAL or time_ns > START_NS + SECOND:
            late.receive(stream, "A", datagram, time_ns)
    assert bands(late) == expected
    publisher = broadcast.publisher
    snapshot = publisher.snapshot(SHARE, publisher.state.instruments[SHARE], 1)
    kinds = [each.get("PriceBandType") for each in snapshot["MDEntries"]]
    assert sorted(each for each in kinds if each) == ["0", "1", "2"]
