"""Anything may come over a connection: the exchange lives, and others notice nothing."""

import contextlib
import random
import struct

import pytest

from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from tests.entrypoint.raw_peer import SESSION, RawPeer
from tests.exchange.host_desk import ORDER, PETR4, Exchange, parties, whole_state
from tests.waiting import until

ROUNDS = 60
PETR4T = next(each.security_id for each in bundled_catalogue() if each.symbol == "PETR4T")


def requests(peer, rng):
    """Frames of every business message a client may send, most of them valid."""

    segment = rng.choice((80, 80, 80, 80, 72, 81, 99))

    def header():
        peer.number += 1
        return {
            "sessionID": peer.session_id,
            "msgSeqNum": peer.number - 1,
            "sendingTime": 1,
            "marketSegmentID": segment,
        }

    values = ORDER | parties(rng.randrange(1, 50), rng.choice(("BUY", "SELL")), 100, 12)
    changes = {
        "orderQty": rng.choice((100, 0, 55, 2**63, 2**64 - 1)),
        "price": rng.choice((12, 13, None, 0, -5)),
        "securityID": rng.choice((PETR4, PETR4, 0, 2**64 - 1)),
    }
    yield peer.frame("SimpleNewOrder", businessHeader=header(), **(values | changes))
    original = rng.randrange(1, 50)
    yield peer.frame(
        "SimpleModifyOrder", businessHeader=header(), **(values | changes), origClOrdID=original
    )
    kinds = {
        "ordType": rng.choice(("LIMIT", "MARKET", "STOP_LIMIT", "RLP", "PEGGED_MIDPOINT")),
        "timeInForce": rng.choice(("DAY", "AT_THE_CLOSE", "GOOD_TILL_DATE", "FILL_OR_KILL")),
        "maxFloor": rng.choice((None, 100, 2**64 - 1)),
        "minQty": rng.choice((None, 100, 2**64 - 1)),
    }
    yield peer.frame("NewOrderSingle", businessHeader=header(), **(values | changes | kinds))
    yield peer.frame(
        "OrderCancelReplaceRequest", businessHeader=header(), **(values | changes | kinds),
        origClOrdID=original,
    )  # fmt: skip
    yield peer.frame(
        "OrderCancelRequest", businessHeader=header(), clOrdID=5, securityID=PETR4, side="BUY",
        origClOrdID=rng.randrange(1, 50), senderLocation="BVMF", enteringTrader="ABC",
    )  # fmt: skip
    yield peer.frame(
        "OrderMassActionRequest", businessHeader=header(), clOrdID=7,
        massActionType=rng.choice(("CANCEL_ORDERS", "CANCEL_AND_SUSPEND_ORDERS")),
    )  # fmt: skip
    yield peer.frame(
        "NewOrderCross", businessHeader=header(), crossID=3, securityID=PETR4,
        orderQty=rng.choice((1000, 2**64 - 1)), price=12, senderLocation="B", enteringTrader="A",
        noSides=[{"side": "BUY", "clOrdID": 1}, {"side": "SELL", "clOrdID": rng.choice((2, 0))}],
    )  # fmt: skip
    legs = [
        {"legSymbol": symbol, "legRatioQty": 1, "legSide": "BUY"}
        for symbol in rng.sample(("PETR3", "PETR4", "VALE3", "NONE"), 2)
    ]
    yield peer.frame(
        "SecurityDefinitionRequest", businessHeader=header(), securityReqID=1, senderLocation="B",
        enteringTrader="A", noLegs=legs,
    )  # fmt: skip
    resend = {"possResend": 0} if peer.version < 5 else {"eventIndicator": 0}
    own = "7" if peer.version <= 2 else 7
    quote = {"securityID": PETR4T, "quoteReqID": own, "senderLocation": "B",
             "enteringTrader": "A", "executingTrader": "A"}  # fmt: skip
    deal = {"transactTime": 1, "price": 36, "orderQty": 1000, "fixedRate": 2,
            "daysToSettlement": 30, "settlType": "BUYERS_DISCRETION"}  # fmt: skip
    yield peer.frame(
        "QuoteRequest", businessHeader=header() | resend, contraBroker=rng.choice((127, 1)),
        noSides=[{"side": "BUY"}], **(quote | deal),
    )  # fmt: skip
    number = rng.randrange(1, 9)
    yield peer.frame(
        "Quote", businessHeader=header() | resend, quoteID=number, side="SELL", **(quote | deal)
    )
    yield peer.frame("QuoteCancel", businessHeader=header() | resend, quoteID=number, **quote)


def mutated(frame, rng):
    """A frame with some bytes changed, cut or added; half of the time its length is right."""
    data = bytearray(frame)
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(4, len(data))] = rng.randrange(256)
    if rng.random() < 0.2:
        del data[rng.randrange(12, len(data)) :]
    if rng.random() < 0.2:
        data += rng.randbytes(rng.randrange(40))
    if rng.random() < 0.8:
        struct.pack_into("<H", data, 0, len(data))
    return bytes(data)


@pytest.mark.parametrize("version", [2, 6])
def test_random_and_mutated_frames_do_no_harm(version, tmp_path):
    fuzz(version, version, tmp_path)


def fuzz(version, seed, folder):
    """Send valid and broken frames: another session is not affected, and the journal has all."""
    rng = random.Random(seed)
    with Exchange(journal=folder) as exchange:
        other = exchange.trader(session_id=SESSION + 1)
        number = answered = connections = 0
        mutations = 0
        while mutations < ROUNDS:
            client = exchange.connect(version=version)
            connections += 1
            with contextlib.suppress(OSError, EOFError, AssertionError, TimeoutError):
                client.socket.settimeout(1)
                if connections == 1:
                    client.log_on()
                else:
                    following = exchange.call(lambda host: host.store.state(SESSION).next_incoming)
                    client.establish(1, following)
                peer = RawPeer(version)
                peer.number = 1 if connections == 1 else following
                for _ in range(rng.randrange(1, 8)):
                    for frame in requests(peer, rng):
                        broken = rng.random() < 0.1
                        mutations += broken
                        client.send_data(mutated(frame, rng) if broken else frame)
            with contextlib.suppress(OSError):
                client.send_data(rng.randbytes(rng.randrange(64)))
            client.close()
            until(lambda: exchange.call(lambda host: not host.store.state(SESSION).connected))
            number += 1
            other.new(1000 + number, quantity=100, price=5)
            answered += other.one("ExecutionReport_New")["clOrdID"] == 1000 + number
        assert exchange.error is None
        assert answered == number >= 3
        assert exchange.call(lambda host: host.requests) > 2 * number
    journal = Journal(folder)
    again = ExchangeHost(exchange.settings, journal)
    again.replay()
    journal.close()
    assert whole_state(again) == whole_state(exchange.host)


def test_silent_or_invalid_connections_leave_no_state():
    rng = random.Random(1)
    with Exchange() as exchange:
        for _ in range(200):
            client = exchange.connect()
            with contextlib.suppress(OSError):
                client.send_data(rng.randbytes(rng.randrange(200)))
            client.close()
        # A later client is served, which shows that all earlier ones were accepted.
        trader = exchange.trader()
        trader.new(1)
        assert trader.one("ExecutionReport_New")["clOrdID"] == 1
        trader.close()
        until(lambda: exchange.server.connections == 0)
        until(lambda: exchange.call(lambda host: len(host.talking)) == 0)
