"""A short session in which spreads trade, and with them their legs: captures, and what happened."""

import random
from datetime import date

from pregao.clock import MILLISECOND, parse_ns
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import CancelOrder, DefineSpread, NewOrder, ProposedLeg
from pregao.exchange.engine.model.enums import RATIO_SCALE, OrderSide, TradingStatus
from pregao.exchange.engine.model.events import SecurityDefinition, Trade, TradeBust
from pregao.exchange.engine.model.instruments import Leg, SecurityType
from pregao.exchange.engine.model.operations_commands import BustTrade, SetGroupPhase, StartDay
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import Publisher
from pregao.exchange.simulation.captures import ChannelCaptures
from pregao.exchange.simulation.network_faults import FaultRates
from tests.exchange.floor import future, px

BUY, SELL = OrderSide.BUY, OrderSide.SELL
DAY = date(2026, 5, 21)
START = parse_ns("2026-05-21T12:00:00")
NEAR, FAR, SPREAD = 1, 2, 3
ORDERS = 250


def instruments():
    """Two futures and the exchange's spread of them, which has implied orders."""
    close = px(50) * 10_000
    near = future(NEAR, symbol="DI1F27", channel=7, previous_close=close)
    far = future(FAR, symbol="DI1F28", channel=7, previous_close=close)
    legs = (
        Leg(NEAR, "DI1F27", RATIO_SCALE, SecurityType.FUT, SELL),
        Leg(FAR, "DI1F28", RATIO_SCALE, SecurityType.FUT, BUY),
    )
    spread = future(
        SPREAD,
        symbol="DIIF27F28",
        channel=7,
        security_type=SecurityType.MLEG,
        legs=legs,
        implied_market_indicator=True,
        previous_close=None,
    )
    return [near, far, spread]


class Session:
    """Members trade the legs, the spread and their own spread, at random but reproducibly."""

    def __init__(self, folder, seed=5):
        self._draws = random.Random(seed)
        self._now = START
        listed = instruments()
        self._engine = MatchingEngine(listed, DAY, implied_orders=True)
        channel = ChannelEndpoints.numbered(7)
        pace = LoopPace(200, 500 * MILLISECOND)
        self._publisher = Publisher(
            [channel], listed, START, snapshot_pace=pace, definition_pace=pace
        )
        self.trades = {}
        """The trades that were published, by instrument and number."""
        self.busted = set()
        self.made = None
        """The spread that a member has made."""
        none = dict.fromkeys(("A", "B", "snapshot", "definition"), FaultRates())
        with ChannelCaptures(folder, channel, "", none, seed, START) as self._captures:
            self._captures.send(self._publisher.initialize(START))
            self._do(StartDay(DAY))
            self._do(SetGroupPhase("XX", TradingStatus.OPEN))
            self._trade()
            self._captures.send(self._publisher.advance(self._now))

    def _do(self, command):
        self._now += self._draws.randrange(1, 20) * MILLISECOND
        outcome = self._engine.apply(command, self._now)
        for unit in outcome.market:
            for item in unit.items:
                if isinstance(item, Trade):
                    self.trades[item.security_id, item.trade_id] = item
                elif isinstance(item, TradeBust):
                    self.busted.add((item.security_id, item.trade_id))
                elif isinstance(item, SecurityDefinition):
                    self.made = item.instrument.security_id
        self._captures.send(self._publisher.publish(outcome.market, self._now))
        self._captures.send(self._publisher.advance(self._now))
        return outcome

    def _trade(self):
        draws = self._draws
        legs = (
            ProposedLeg("DI1F27", BUY, RATIO_SCALE),
            ProposedLeg("DI1F28", BUY, RATIO_SCALE),
        )
        self._do(DefineSpread(1, 1, legs))
        for number in range(1, ORDERS + 1):
            security_id = draws.choice([NEAR, FAR, SPREAD, SPREAD, self.made])
            middle = {NEAR: 50.0, FAR: 50.2, SPREAD: 0.2, self.made: 100.0}[security_id]
            price = px(round(middle + draws.randrange(-5, 6) / 100, 2))
            side = draws.choice([BUY, SELL])
            session = draws.randrange(1, 5)
            self._do(
                NewOrder(
                    session, 100 + session, number, security_id, side, draws.randrange(1, 9), price
                )
            )
            if number % 3 == 0:
                original = draws.randrange(1, number + 1)
                self._do(CancelOrder(session, 10_000 + number, NEAR, orig_cl_ord_id=original))
        of_legs = [key for key, trade in self.trades.items() if trade.trd_sub_type is not None]
        self._do(BustTrade(*of_legs[0]))
