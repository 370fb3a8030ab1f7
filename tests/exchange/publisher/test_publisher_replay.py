"""Replaying the published packets, from the first byte or from any snapshot, gives the books."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.engine.model import commands
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandType,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    LastTradePrice,
    MarketEvent,
    OpenInterest,
    SettlementPrice,
)
from pregao.exchange.engine.model.instruments import Product
from pregao.exchange.engine.model.reports import OrderModified
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.encoding.orders import has_positions
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import Publisher
from pregao.umdf.streams import Stream
from tests.exchange.feed_reader import (
    DELETE,
    MASS,
    ORDER,
    RESET,
    VERSIONS,
    Receiver,
    loops,
    read,
    snapshots,
)
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, px, share

SPREAD = 100_000_000_003
SECURITIES = (SHARE, OTHER, SPREAD)
STEP_NS = 20_000_000
START_NS = 1_780_000_000_000_000_000


class Broadcast:
    """A floor whose events are published, and receivers that listen."""

    def __init__(self, version: int) -> None:
        self.version = version
        instruments = (
            share(),
            share(OTHER, previous_close=10_0000_0000),
            share(SPREAD, security_group="YY", implied_market_indicator=True),
        )
        self.floor = Floor(
            *instruments, phase=TradingStatus.OPEN, keeps_numbers=has_positions(version)
        )
        self.publisher = Publisher(
            [ChannelEndpoints.numbered(1)],
            instruments,
            START_NS,
            schema_version=version,
            snapshot_pace=LoopPace(200, 0),
            definition_pace=LoopPace(10),
        )
        self.floor.now = START_NS
        self.receiver = Receiver(version)
        self.incremental: list[bytes] = []
        self.snapshots: list[bytes] = []
        self.packets_before: list[int] = []
        """Number of incremental packets that were sent before each snapshot packet."""
        self.send(self.floor.engine.group_phases())
        self.orders: list[tuple[int, int, int]] = []

    def send(self, phases: Any) -> None:
        self.take(self.publisher.publish([MarketEvent(list(phases), False)], self.floor.now))

    def take(self, datagrams: Any) -> None:
        last = 0
        for datagram in datagrams:
            assert last <= datagram.time_ns <= self.floor.now
            last = datagram.time_ns
            if datagram.stream is Stream.INCREMENTAL:
                self.receiver.feed(datagram.payload)
                self.incremental.append(datagram.payload)
            elif datagram.stream is Stream.SNAPSHOT:
                self.snapshots.append(datagram.payload)
                self.packets_before.append(len(self.incremental))

    def do(self, command: Any) -> None:
        try:
            outcome = self.floor.do(command, STEP_NS)
        except UsageError:
            return  # market operations asked for something that cannot be; nothing changed
        self.take(self.publisher.publish(outcome.market, self.floor.now))

    def check_books(self, receiver: Receiver) -> None:
        for security_id in SECURITIES:
            view = self.floor.engine.book(security_id)
            rebuilt = receiver.instrument(security_id).book()
            for entries, rows in zip((view.bids, view.offers), rebuilt, strict=True):
                truth = [
                    (
                        None if entry.price is None else Decimal(entry.price).scaleb(-4),
                        entry.size,
                        entry.secondary_order_id,
                        entry.firm,
                        entry.implied and self.version >= 10,
                    )
                    for entry in entries
                ]
                assert rows == truth

    def check_late_joiner(self) -> None:
        """Receivers that joined in any loop have the same books and statistics by now."""
        ends = [
            index
            for index, payload in enumerate(self.snapshots)
            if read(payload, self.version).templates == [RESET]
        ]
        whole = loops(self.snapshots, self.version)
        assert len(ends) == len(whole)
        for chosen in {0, len(whole) // 2, len(whole) - 1}:
            first = ends[chosen - 1] + 1 if chosen else 0
            start, end = self.packets_before[first], self.packets_before[ends[chosen]]
            meanwhile = [read(payload, self.version) for payload in self.incremental[start:end]]
            if any(packet.templates == [RESET] for packet in meanwhile):
                continue  # part of the loop belongs to the stream before it was restarted
            joiner = Receiver(self.version)
            joiner.join(whole[chosen])
            for payload in self.incremental[start:]:
                joiner.feed(payload)
            self.check_books(joiner)
            for security_id in SECURITIES:
                seen = self.receiver.instrument(security_id)
                assert joiner.instrument(security_id).rpt_seq == seen.rpt_seq


securities = st.sampled_from(SECURITIES)
sides = st.sampled_from([BUY, SELL])
prices = st.integers(min_value=995, max_value=1005).map(lambda cents: cents * 100)
quantities = st.integers(min_value=1, max_value=40)
new_orders = st.tuples(
    st.just("new"), securities, sides, prices, quantities, st.sampled_from([0, 0, 0, 2])
)
on_orders = st.tuples(
    st.sampled_from(["cancel", "modify"]), st.integers(0, 200), prices, quantities
)
auctions = st.tuples(st.just("auction order"), securities, sides, quantities)
phases = st.tuples(
    st.just("phase"),
    st.sampled_from(["XX", "YY"]),
    st.sampled_from([TradingStatus.OPEN, TradingStatus.RESERVED, TradingStatus.PAUSE]),
    st.booleans(),
)
operations = st.tuples(
    st.just("operation"),
    securities,
    st.sampled_from(
        ["side", "reset", "channel", "stream", "implied", "mass", "bust", "status", "rejoin"]
    ),
    sides,
)
steps = st.lists(
    st.one_of(new_orders, new_orders, new_orders, on_orders, auctions, phases, operations),
    min_size=10,
    max_size=60,
)


def act(broadcast: Broadcast, step: tuple[Any, ...]) -> None:
    floor = broadcast.floor
    floor.next_id += 1
    match step:
        case ("new", security_id, side, price, quantity, shown):
            # Every other order has no firm.
            firm = 7 * (floor.next_id % 2)
            order = commands.NewOrder(
                1, firm, floor.next_id, security_id, side, quantity, price, max_floor=shown
            )
            broadcast.orders.append((security_id, floor.next_id, quantity))
            broadcast.do(order)
        case ("auction order", security_id, side, quantity):
            broadcast.do(
                commands.NewOrder(
                    1,
                    7,
                    floor.next_id,
                    security_id,
                    side,
                    quantity,
                    time_in_force=TimeInForce.GOOD_FOR_AUCTION,
                )
            )
        case ("cancel" | "modify", which, price, quantity) if broadcast.orders:
            security_id, known, _ = broadcast.orders[which % len(broadcast.orders)]
            if step[0] == "cancel":
                broadcast.do(
                    commands.CancelOrder(1, floor.next_id, security_id, orig_cl_ord_id=known)
                )
            else:
                broadcast.orders.append((security_id, floor.next_id, quantity))
                broadcast.do(
                    commands.ModifyOrder(
                        1, floor.next_id, security_id, quantity, price, orig_cl_ord_id=known
                    )
                )
        case ("phase", group, phase, new_session):
            broadcast.do(commands.SetGroupPhase(group, phase, new_session=new_session))
        case ("operation", security_id, name, side):
            broadcast.do(operation(security_id, name, side, floor))


def operation(security_id: int, name: str, side: OrderSide, floor: Floor) -> Any:
    figures = floor.engine.book(security_id).statistics
    last = next((each for each in figures if isinstance(each, LastTradePrice)), None)
    return {
        "side": commands.DeleteSide(security_id, side),
        "reset": commands.ResetBook(security_id),
        "channel": commands.ResetChannel(1),
        "stream": commands.ResetStream(1),
        "implied": commands.EnterImplied(SPREAD, side, px(9.9 if side == BUY else 10.1), 5),
        "mass": commands.MassCancel(1, floor.next_id),
        "bust": commands.BustTrade(security_id, 0 if last is None else last.trade_id),
        "status": commands.SetSecurityStatus(security_id, TradingStatus.RESERVED),
        "rejoin": commands.RejoinGroup(security_id),
    }[name]


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=20, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(steps=steps)
def test_replay_gives_the_engines_books(version, steps):
    broadcast = Broadcast(version)
    for step in steps:
        act(broadcast, step)
        broadcast.check_books(broadcast.receiver)
    broadcast.floor.now += 1_000_000_000
    broadcast.take(broadcast.publisher.advance(broadcast.floor.now))
    assert not broadcast.receiver.in_event
    broadcast.check_late_joiner()
    check_figures(broadcast)


def check_figures(broadcast: Broadcast) -> None:
    """The last snapshot shows the figures that the engine holds to be standing."""
    loop = loops(broadcast.snapshots, broadcast.version)[-1]
    found = snapshots(loop, broadcast.version)
    unknown = (SettlementPrice, OpenInterest) if broadcast.version < 9 else ()
    for security_id, snapshot in found.items():
        view = broadcast.floor.engine.book(security_id)
        standing = [x for x in view.statistics if not isinstance(x, (LastTradePrice, *unknown))]
        shown = [template for template, _ in snapshot["figures"] if template not in (3, 27)]
        assert len(shown) == len(standing)
        last = [
            (int(values["mDEntryPx"].scaleb(4)), values["tradeID"])
            for template, values in snapshot["figures"]
            if template == 27
        ]
        assert last == [(x.price, x.trade_id) for x in view.statistics if type(x) is LastTradePrice]
        (status,) = [values for template, values in snapshot["figures"] if template == 3]
        own = view.security_status.status
        assert status["securityTradingStatus"] == (None if own is None else own.name)
        follows = "SECURITY_REJOINS_SECURITY_GROUP_STATUS"
        assert status["securityTradingEvent"] == (
            follows if own is None else "SECURITY_STATUS_CHANGE"
        )
        assert status["securityTradingEvent"] == view.security_status.event.name


@pytest.mark.parametrize("version", VERSIONS)
def test_an_order_that_sweeps_the_top_is_one_deletion_where_positions_rule(version):
    broadcast = Broadcast(version)
    for price in (10.00, 10.01, 10.02, 10.05):
        broadcast.do(new(broadcast, SELL, 10, price))
    broadcast.receiver.log.clear()
    broadcast.do(new(broadcast, BUY, 35, 10.05))
    book = [message for message in broadcast.receiver.log if message.message.id in (50, 51, 52)]
    if version < 15:
        mass, change = book
        assert mass.message.id == MASS
        assert mass["mDUpdateAction"] == "DELETE_FROM"
        assert mass["mDEntryPositionNo"] == 3
    else:
        *deletes, change = book
        assert [message.message.id for message in deletes] == [DELETE] * 3
    assert change.message.id == ORDER
    assert (change["mDUpdateAction"], change["mDEntrySize"]) == ("CHANGE", 5)
    broadcast.check_books(broadcast.receiver)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("firm", [0, 7])
def test_000_12_1_a_replaced_order_of_an_anonymous_market_keeps_its_number_below_version_15(
    version, firm
):
    broadcast = Broadcast(version)
    first = replace(new(broadcast, BUY, 10, 10.00), firm=firm)
    broadcast.do(first)
    broadcast.do(new(broadcast, BUY, 10, 10.00))
    broadcast.receiver.log.clear()
    broadcast.floor.next_id += 1
    broadcast.do(
        commands.ModifyOrder(
            1, broadcast.floor.next_id, SHARE, 20, px(10), orig_cl_ord_id=first.cl_ord_id
        )
    )
    deleted, added = broadcast.receiver.log
    assert (deleted.message.id, added.message.id) == (DELETE, ORDER)
    assert added["mDUpdateAction"] == "NEW"
    kept = added["secondaryOrderID"] == deleted["secondaryOrderID"]
    assert kept == (version < 15 and not firm)
    # The owner gets the number on the feed, and the position is lost in any case.
    (report,) = broadcast.floor.reports(OrderModified)
    assert report.secondary_order_id == added["secondaryOrderID"]
    assert added.values.get("mDEntryPositionNo") == (2 if version < 15 else None)
    broadcast.check_books(broadcast.receiver)
    broadcast.floor.now += 1_000_000_000
    broadcast.take(broadcast.publisher.advance(broadcast.floor.now))
    broadcast.check_late_joiner()


def new(broadcast: Broadcast, side: OrderSide, quantity: int, price: float) -> commands.NewOrder:
    broadcast.floor.next_id += 1
    return commands.NewOrder(1, 7, broadcast.floor.next_id, SHARE, side, quantity, px(price))


@pytest.mark.parametrize("version", VERSIONS)
def test_positions_are_those_that_the_engine_tracks(version):
    broadcast = Broadcast(version)
    for side, quantity, price in (
        (BUY, 5, 10.0),
        (BUY, 5, 10.2),
        (BUY, 5, 10.1),
        (SELL, 3, 10.2),
        (BUY, 1, 10.0),
    ):
        broadcast.receiver.log.clear()
        broadcast.do(new(broadcast, side, quantity, price))
        positions = [x.position for x in broadcast.floor.items() if hasattr(x, "position")]
        shown = [
            message.values.get("mDEntryPositionNo")
            for message in broadcast.receiver.log
            if message.message.id in (ORDER, DELETE)
        ]
        assert shown == (positions if version < 15 else [None] * len(positions))


def test_statistics_set_by_market_operations_are_in_the_snapshot_of_every_version():
    for version in VERSIONS:
        broadcast = Broadcast(version)
        # Only an economic indicator shows a reference price.
        instrument = broadcast.floor.engine.market.listing(SHARE).instrument
        indicator = replace(instrument, product=Product.ECONOMIC_INDICATOR)
        broadcast.do(commands.ChangeInstrument(indicator))
        previous = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY
        for command in (
            commands.SetClosingPrice(SHARE, 9_5000_0000, previous),
            commands.SetSettlementPrice(SHARE, px(9.5), previous),
            commands.SetSettlementPrice(SHARE, px(9.6)),
            commands.SetOpenInterest(SHARE, 1234),
            commands.SetPriceBand(SHARE, PriceBandType.HARD_LIMIT, low=px(5), high=px(15)),
            commands.SetPriceBand(SHARE, reference8=9_5000_0000),
            commands.SetQuantityBand(SHARE, 1_000_000, 500_000),
        ):
            broadcast.do(command)
        broadcast.floor.now += 1_000_000_000
        broadcast.take(broadcast.publisher.advance(broadcast.floor.now))
        check_figures(broadcast)
        figures = broadcast.receiver.instrument(SHARE).figures
        joiner = Receiver(version)
        joiner.join(loops(broadcast.snapshots, version)[-1])
        plain = {
            key: {name: value for name, value in values.items() if name != "rptSeq"}
            for key, values in figures.items()
        }
        shown = {
            key: {name: value for name, value in values.items() if name != "rptSeq"}
            for key, values in joiner.instrument(SHARE).figures.items()
        }
        assert shown == plain
        assert len(shown) == (7 if version >= 9 else 4)
