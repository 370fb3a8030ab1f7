"""A desk of ``pregao ep``: commands carried out with a client, and what happens told in lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from pregao.cli import ep_language as language
from pregao.cli.ep_language import NOTHING, Command
from pregao.clock import MILLISECOND, SECOND, parse_span, system_clock
from pregao.entrypoint import (
    Client,
    ConnectionEnded,
    ConnectionFailed,
    Entering,
    NotAppliedGap,
    Order,
    Received,
    Requests,
    RetransmissionRefused,
    SequenceLowered,
    SessionEstablished,
    SessionRefused,
)
from pregao.errors import EncodeError, PregaoError, UsageError

PATIENCE_NS = 5 * SECOND
"""How long an expectation waits if it does not say."""


class ExpectationError(PregaoError):
    """Something else happened than a script expected."""


class Desk:
    """A trader's desk: orders have names, or numbers in the order in which they were entered."""

    def __init__(self, client: Client, entering: Entering | None = None) -> None:
        self.client = client
        self._requests = Requests(client.settings.version, entering, client.schema)
        self._events = client.events()
        self._names: dict[str, int] = {}
        """By what an order is called: its first number of the client's."""
        self._called: dict[int, str] = {}
        self._entered = 0
        # Rising from run to run: an exchange refuses a number that it has seen.
        self._last_id = system_clock() // MILLISECOND * 100
        self._unmatched: list[Received] = []
        for order in client.orders:
            self._call(order.chain[0] if order.chain else order.cl_ord_id, "")

    # What is said.

    async def do(self, command: Command) -> list[str]:
        """Carry out a command; give the lines to be shown."""
        match command.name:
            case "help":
                return [language.HELP]
            case "status":
                return list(self.status())
            case "wait":
                await asyncio.sleep(language.seconds(parse_span(command.words[0], "wait")))
                return []
            case "expect":
                return [await self.expect(command)]
        name, values = self._request(command)
        try:
            number = await self.client.send(name, values)
        except EncodeError as error:
            raise UsageError(f"{name}: {error}.") from None
        return [f"> {number} {name}{self._of_request(values)}"]

    def _request(self, command: Command) -> tuple[str, dict[str, Any]]:
        words, make = command.words, self._requests
        match command.name:
            case "new":
                at = language.price(words[3]) if len(words) > 3 else None
                more = self._fields("NewOrderSingle", command)
                number = self._next_id()
                made = make.new(
                    number, language.side(words[0]), language.security(words[1]),
                    language.quantity(words[2]), at, **more,
                )  # fmt: skip
                self._call(number, command.label)
                return made
            case "modify":
                at = language.price(words[2]) if len(words) > 2 else None
                more = self._fields("OrderCancelReplaceRequest", command)
                order = self._order(words[0])
                amount = language.quantity(words[1])
                return make.modify(self._next_id(), order, amount, at, **more)
            case "cancel":
                more = self._fields("OrderCancelRequest", command)
                return make.cancel(self._next_id(), self._order(words[0]), **more)
            case "mass-cancel":
                more = self._fields("OrderMassActionRequest", command)
                return make.mass_cancel(self._next_id(), **more)
            case "cross":
                more = self._fields("NewOrderCross", command)
                ids = (self._next_id(), self._next_id())
                made = make.cross(
                    self._next_id(), ids, language.security(words[0]), language.quantity(words[1]),
                    language.price(words[2]), self.client.settings.firm, **more,
                )  # fmt: skip
                for number in ids:
                    self._call(number, "")
                return made
        return make.message(words[0], self._fields(words[0], command))

    def _fields(self, name: str, command: Command) -> dict[str, Any]:
        return {key: self._requests.value(name, key, text) for key, text in command.fields}

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _call(self, client_id: int, label: str) -> None:
        if label in self._names:
            raise UsageError(f"There is an order called {label!r} already.")
        self._entered += 1
        for name in (str(self._entered), label):
            if name:
                self._names[name] = client_id
        self._called[client_id] = label or str(self._entered)

    def _order(self, name: str) -> Order:
        client_id = self._names.get(name)
        if client_id is None and name.isascii() and name.isdigit():
            client_id = int(name)  # the client's own number, as status shows it
        order = None if client_id is None else self.client.orders.get(client_id)
        if order is None:
            known = ", ".join(dict.fromkeys(self._called.values())) or "none yet"
            raise UsageError(f"There is no order {name!r}; there are: {known}.")
        return order

    def _name_of(self, client_id: int | None) -> str:
        order = None if client_id is None else self.client.orders.get(client_id)
        first = order.chain[0] if order is not None and order.chain else client_id
        return "" if first is None else self._called.get(first, "")

    def _of_request(self, values: Mapping[str, Any]) -> str:
        name = self._name_of(values.get("origClOrdID")) or self._name_of(values.get("clOrdID"))
        return f" of order {name}" if name else ""

    # What is heard.

    async def next_line(self) -> str | None:
        """The next thing that happens, as a line; None when the client is closed."""
        while True:
            try:
                event = await anext(self._events)
            except StopAsyncIteration:
                return None
            line = self._line(event)
            if line is not None:
                return line

    def _line(self, event: Any) -> str | None:
        match event:
            case Received():
                again = "again " if event.again else ""
                return f"< {event.number} {again}{self.report(event)}"
            case SessionEstablished():
                return f"session {event.session_id} is established; next is {event.next_outgoing}"
            case SessionRefused():
                return f"refused: {event.code}"
            case NotAppliedGap():
                last = event.first + event.count - 1
                return f"not applied: messages {event.first} to {last}; send them anew"
            case RetransmissionRefused() if not event.count:
                return f"a retransmission from {event.first} on is refused for now: {event.code}"
            case RetransmissionRefused():
                return f"lost: {event.count} reports from {event.first} on ({event.code})"
            case SequenceLowered():
                return (
                    f"the gateway goes on with report {event.next_number}; "
                    f"{event.expected} was expected"
                )
            case ConnectionFailed():
                return f"{event.gateway} cannot be reached: {event.reason}"
            case ConnectionEnded():
                reason = " ".join(filter(None, (event.code, event.reason)))
                return f"the connection ended: {reason}"
        return None

    def report(self, event: Received) -> str:
        """A report in a line."""
        values = event.message.values
        name = self._name_of(values.get("origClOrdID")) or self._name_of(values.get("clOrdID"))
        whose = f" of order {name}" if name else ""
        told = [f"{key}={_text(values[key])}" for key in _TOLD if values.get(key) not in (None, "")]
        return f"{event.name}{whose}: {' '.join(told)}"

    def status(self) -> Iterator[str]:
        """The session and its orders."""
        client = self.client
        stage = client.stage.value
        yield f"session {client.settings.session_id}: {stage}, next number {client.next_number}"
        for order in client.orders:
            first = order.chain[0] if order.chain else order.cl_ord_id
            name = self._name_of(first) or str(first)
            at = "the market" if order.price is None else order.price
            waiting = f", {len(order.pending)} unanswered" if order.pending else ""
            yield (
                f"order {name}: {order.side} {order.quantity} of {order.security_id} at {at}: "
                f"{order.status}, traded {order.cumulative}, left {order.leaves}{waiting}"
            )

    # What is expected.

    async def expect(self, command: Command) -> str:
        """Wait for a report that a script expects; those before it that do not fit wait on."""
        wanted = command.words[0]
        within = PATIENCE_NS if command.within_ns is None else command.within_ns
        nothing = wanted == NOTHING
        try:
            async with asyncio.timeout(language.seconds(within)):
                while True:
                    found = next((e for e in self._unmatched if self._fits(e, command)), None)
                    if nothing and self._unmatched:
                        raise ExpectationError(
                            f"nothing was expected, but there is {self.report(self._unmatched[0])}"
                        )
                    if found is not None:
                        self._unmatched.remove(found)
                        return f"< {found.number} {self.report(found)}"
                    event = await anext(self._events)
                    if isinstance(event, Received) and self._of_this_run(event):
                        self._unmatched.append(event)
        except TimeoutError:
            if nothing:
                return "nothing came, as expected"
            there = "; ".join(self.report(each) for each in self._unmatched[:_FEW]) or "nothing"
            if len(self._unmatched) > _FEW:
                there += f"; and {len(self._unmatched) - _FEW} more"
            raise ExpectationError(
                f"{self._meant(command)} did not come within {language.seconds(within):g} s; "
                f"there is: {there}"
            ) from None
        except StopAsyncIteration:
            raise ExpectationError(f"{self._meant(command)} did not come: it is over") from None

    def _of_this_run(self, event: Received) -> bool:
        """Is it no report of an earlier run, which the exchange sends again to who forgot it?"""
        values = event.message.values
        ids = (values.get("clOrdID"), values.get("origClOrdID"))
        return not event.again or any(self._name_of(each) for each in ids)

    @staticmethod
    def _meant(command: Command) -> str:
        fields = [f"{key}={value}" for key, value in command.fields]
        return " ".join([*command.words, *fields])

    def _fits(self, event: Received, command: Command) -> bool:
        values = event.message.values
        if event.name != command.words[0]:
            return False
        if len(command.words) > 1:
            ids = (values.get("clOrdID"), values.get("origClOrdID"))
            order = self._order(command.words[1])
            if not any(self.client.orders.get(each) is order for each in ids if each is not None):
                return False
        for key, _ in command.fields:
            if key not in values:
                raise UsageError(f"{event.name} has no field {key!r}; it has {', '.join(values)}.")
        return all(_same(values[key], text) for key, text in command.fields)


_FEW = 5
_TOLD = (
    "ordStatus", "orderQty", "price", "lastQty", "lastPx", "cumQty", "leavesQty", "ordRejReason",
    "massActionResponse", "refMsgType", "businessRejectReason", "text", "orderID",
)  # fmt: skip
"""What is shown of a report, where it has it."""


def _text(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _same(value: Any, text: str) -> bool:
    """Is a value what an expectation says?"""
    if value is None:
        return text in ("", "none")
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        try:
            return Decimal(value) == Decimal(text)
        except ArithmeticError:
            return False
    return str(value) == text
