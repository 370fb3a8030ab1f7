"""One exchange for many conversations of the raw client, each with its own sessions."""

import itertools
import time
from dataclasses import replace
from datetime import date, timedelta

from pregao.entrypoint import SessionAccount
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from tests.entrypoint.raw_peer import KEY
from tests.exchange.host_desk import Exchange, quiet_settings

FIRST, FIRM = 500_000_001, 85
SECURITY = 900_000_001
MANY = 400
LAST = 2**32 - 1
SOON = date.today() + timedelta(days=9)


def raw_market():
    """An exchange with many equal instruments and sessions, none of which is used twice."""
    like = next(each for each in bundled_catalogue() if each.symbol == "PETR4")
    instruments = tuple(
        replace(like, security_id=SECURITY + n, symbol=f"RAW{n:03}") for n in range(MANY)
    )
    sessions = tuple(SessionAccount(FIRST + n, FIRM, KEY) for n in range(MANY))
    running = Exchange(quiet_settings(instruments=instruments, sessions=sessions))
    running.unused = itertools.count()
    return running


class Desk:
    """A separate instrument, and fresh sessions for the duration of a scenario."""

    def __init__(self, market):
        self.market = market
        self.security = SECURITY + next(market.unused)

    def line(self, version=2):
        """A connection of an unused session."""
        return self.market.connect(version=version, session_id=FIRST + next(self.market.unused))

    def trader(self, version=2, **establish):
        client = self.line(version)
        client.send_data(client.peer.negotiate(now=time.time_ns(), firm=FIRM))
        client.one("NegotiateResponse")
        client.establish(**establish)
        return client

    def again(self, client, **establish):
        """Reconnect the session."""
        other = self.market.connect(session_id=client.peer.session_id)
        other.number = client.number
        return other

    def order(self, client, number, side="BUY", quantity=100, price=12, **changes):
        client.single(number, side, quantity, price, securityID=self.security, **changes)


def report(client, kind, **fields):
    """The next message: an execution report of a kind, with these values."""
    values = client.one(f"ExecutionReport_{kind}")
    assert {name: values[name] for name in fields} == fields
    return values


def closed(client, code):
    """Terminate with a code, then the end of the connection, and nothing else."""
    assert [(name, values["terminationCode"]) for name, values in client.ended()] == [
        ("Terminate", code)
    ]


def rejected(client, name, field, code):
    """A reject, Terminate, and the end of the connection."""
    found = client.ended()
    assert [each for each, _ in found] == [name, "Terminate"]
    assert found[0][1][field] == code
    return found[0][1]
