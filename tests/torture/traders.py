"""Traders of the torture: seeded orders through the client's session, over connections that fail.

A trader checks everything it receives: numbers without a gap, nothing twice, nothing given up.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

from pregao.clock import MILLISECOND
from pregao.entrypoint.client_session import ClientSession
from pregao.entrypoint.events import (
    MessageReceived,
    NotAppliedGap,
    RetransmissionRefused,
    SequenceLowered,
)
from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.messages import messages
from pregao.entrypoint.order_tracker import OrderTracker
from pregao.entrypoint.session_settings import ClientSettings, ConnectionStage
from pregao.entrypoint.session_store import SessionFile
from tests.torture.disk import Disk, KilledError
from tests.torture.exchange_process import ExchangeProcess, Wire

RETRY_NS = 40 * MILLISECOND
COMMON = {
    "marketSegmentID": 80,
    "senderLocation": "BVMF",
    "enteringTrader": "ABC",
    "selfTradePreventionInstruction": "NONE",
}


class Trader:
    """One session, its orders, and its connection."""

    def __init__(self, settings: ClientSettings, path: Any, disk: Disk, seed: int) -> None:
        self.settings, self.path, self.disk = settings, path, disk
        self.draw = random.Random(f"trader {settings.session_id} of {seed}")
        self.codec = messages(settings.version)
        self.wire: Wire | None = None
        self.retry_ns = 0
        self.gateway = 1
        self.cl_ord_id = settings.session_id % 1000 * 1_000_000
        self.received: list[tuple[int, str, bytes]] = []
        """Messages of this trading session, in the order of their delivery."""
        self.reads = True
        self.deaf_until = -1
        self.slow_until = -1
        self.requests = 0
        self.days_reports = 0
        """Messages received on earlier days."""
        self.counts: Counter[str] = Counter()
        self.wrong_next = ""
        self._open()

    def _open(self) -> None:
        """Start the client's process with what its file has."""
        self.store = SessionFile(self.path)
        self.session = ClientSession(self.settings, self.store)
        self.tracker = OrderTracker()
        state = self.session.state
        for number, data in sorted(state.sent.items()):
            frame = frame_of(data)
            name = self.codec.name(frame)
            self.tracker.sent(number, name, self.codec.decode(frame).values)
        for gap in state.not_taken:
            self.tracker.not_applied(gap.first, gap.count)
        self.received = []
        for (number, name, message), kept in zip(self.session.kept(), state.received, strict=True):
            self.tracker.received(name, message, number)
            self.received.append((number, name, kept.data))

    def kill(self) -> None:
        """End the client's process without any farewell; the next one starts from the file."""
        self.counts["client kill"] += 1
        self.store._unwritten.clear()
        self.store.close()
        if self.wire is not None:
            self.wire.up = False
            self.wire = None
        self._open()

    def next_day(self, now_ns: int) -> None:
        """Start a trading session: numbers from 1."""
        if self.wire is not None:
            self.wire.up = False
            self.lost(now_ns)
        self.session.reset_day()
        self.tracker = OrderTracker()  # all orders were of the day
        self.days_reports += len(self.received)
        self.received = []

    # Connection

    def connect(self, process: ExchangeProcess, now_ns: int) -> None:
        """Connect if there is no connection and it is time for one."""
        if self.wire is not None or now_ns < self.retry_ns:
            return
        self.retry_ns = now_ns + RETRY_NS
        self.gateway = process.host.active
        self.session.connect(now_ns, self.gateway)
        self.wire = process.connect(self.gateway, now_ns)
        self.send()

    def lost(self, now_ns: int) -> None:
        """Notice the end of the connection."""
        self.wire = None
        self.session.lost()
        self.retry_ns = now_ns + RETRY_NS

    def send(self) -> None:
        """Send the output of the session."""
        try:
            output = self.session.take_output()
        except (OSError, KilledError):  # the disk of the client is full: its process ends
            self.counts["session disk full"] += 1
            self.counts["client kill"] -= 1  # it is counted as what it was
            self.kill()
            return
        if not output or self.wire is None:
            return
        if self.wrong_next:
            # What follows the frames of the client is not one of them, or one cut short.
            self.counts[self.wrong_next] += 1
            if self.wrong_next == "torn frame":
                output = output[: self.draw.randrange(len(output))]
            else:
                output += bytes(self.draw.randrange(256) for _ in range(self.draw.randint(1, 60)))
            self.wrong_next = ""
        while output:
            cut = self.draw.choice((len(output), len(output), self.draw.randint(1, len(output))))
            self.wire.to_gateway.append(output[:cut])
            output = output[cut:]

    def receive(self, step: int, now_ns: int) -> None:
        """Read what the gateway sent, unless the trader does not read now."""
        wire = self.wire
        if wire is None:
            return
        if step >= self.deaf_until:
            while wire.to_client:
                self._take(wire.deliver("client"), now_ns)
                if step < self.slow_until:
                    break
        else:
            self.session.on_reading_paused(now_ns)
        if self.wire is not wire:
            return
        due = self.session.next_due_ns
        if due is not None and due <= now_ns:
            self._events(self.session.advance(now_ns))
        self.send()
        if self.wire is wire and (not wire.up or self.session.closing):
            wire.up = False
            self.lost(now_ns)

    def _take(self, data: bytes, now_ns: int) -> None:
        self._events(self.session.receive(data, now_ns))

    def _events(self, events: Any) -> None:
        for event in events:
            self.counts[type(event).__name__] += 1
            match event:
                case MessageReceived():
                    last = self.received[-1][0] if self.received else 0
                    assert event.number == last + 1, (self.settings.session_id, event, last)
                    self.received.append((event.number, event.name, event.data))
                    self.tracker.received(event.name, event.message, event.number)
                case NotAppliedGap():
                    self.tracker.not_applied(event.first, event.count)
                case RetransmissionRefused():
                    assert not event.count, (self.settings.session_id, event)
                case SequenceLowered():
                    raise AssertionError(f"{self.settings.session_id}: {event}")

    # Orders

    @property
    def established(self) -> bool:
        """Whether requests can be sent."""
        return self.wire is not None and self.session.stage is ConnectionStage.ESTABLISHED

    def act(self, securities: list[int], now_ns: int) -> None:
        """Send a request: an order, or a change or cancel of one."""
        if not self.established:
            return
        draw, working = self.draw, self.tracker.working()
        security = draw.choice(securities)
        side = draw.choice(("BUY", "SELL"))
        self.cl_ord_id += 1
        values = COMMON | {"clOrdID": self.cl_ord_id, "securityID": security}
        kind = draw.random()
        if working and kind < 0.4:
            order = draw.choice(working)
            values |= {"securityID": order.security_id, "side": order.side,
                       "origClOrdID": order.cl_ord_id}  # fmt: skip
            if kind < 0.2:
                del values["selfTradePreventionInstruction"]
                self._request("OrderCancelRequest", values, now_ns)
            else:
                values |= self._terms(order.side) | {"mmProtectionReset": "FALSE_VALUE"}
                self._request("SimpleModifyOrder", values, now_ns)
        elif kind < 0.42:
            values = {"clOrdID": self.cl_ord_id, "massActionType": "CANCEL_ORDERS",
                      "marketSegmentID": 80}  # fmt: skip
            self._request("OrderMassActionRequest", values, now_ns)
        elif kind < 0.45:
            values |= self._terms(side) | {"side": side, "mmProtectionReset": "FALSE_VALUE",
                                           "securityID": 1}  # fmt: skip
            self._request("SimpleNewOrder", values, now_ns)
        elif kind < 0.55:
            values |= self._terms(side) | {"side": side, "mmProtectionReset": "FALSE_VALUE"}
            values["timeInForce"] = draw.choice(("IMMEDIATE_OR_CANCEL", "FILL_OR_KILL"))
            self._request("NewOrderSingle", values, now_ns)
        elif kind < 0.65:
            values |= self._terms(side) | {"side": side, "mmProtectionReset": "FALSE_VALUE"}
            values["maxFloor"] = 100
            self._request("NewOrderSingle", values, now_ns)
        else:
            values |= self._terms(side) | {"side": side, "mmProtectionReset": "FALSE_VALUE"}
            self._request("SimpleNewOrder", values, now_ns)

    def _terms(self, side: str) -> dict[str, Any]:
        # Mostly around 12.00, and rather passive: some trade, more rest.
        ticks = round(self.draw.gauss(-3 if side == "BUY" else 3, 4))
        return {"orderQty": 100 * self.draw.randint(1, 9), "ordType": "LIMIT",
                "timeInForce": "DAY", "price": Decimal(1200 + ticks) / 100}  # fmt: skip

    def _request(self, name: str, values: dict[str, Any], now_ns: int) -> None:
        first = self.session.next_live
        number = self.session.send(name, values, now_ns)
        self.tracker.sent(number, name, values, first)
        self.requests += 1
        self.send()
