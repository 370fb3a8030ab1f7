"""Order console of ``pregao ep``: commands run with a client, typed or read from a script.

Events are printed as lines. A script is parsed as a whole before anything is sent.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from pregao.cli.ep import console_commands as language
from pregao.cli.ep.console_commands import NOTHING, ConsoleCommand, parse
from pregao.clock import SECOND
from pregao.entrypoint.client import Client
from pregao.entrypoint.events import (
    ConnectionEnded,
    ConnectionFailed,
    MessageReceived,
    NotAppliedGap,
    RetransmissionRefused,
    SequenceLowered,
    SessionEstablished,
    SessionRefused,
)
from pregao.entrypoint.order_tracker import ClientOrder
from pregao.entrypoint.request_builder import RequestDefaults
from pregao.errors import EncodeError, PregaoError, UsageError
from pregao.units import parse_duration

PATIENCE_NS = 5 * SECOND
"""Default timeout of an expectation."""


class ExpectationError(PregaoError):
    """An expectation of a script was not met."""


class OrderConsole:
    """A session's command interpreter; orders are referred to by name or entry number."""

    def __init__(self, client: Client, entering: RequestDefaults | None = None) -> None:
        self.client = client
        self._requests = client.request_builder(entering)
        self._events = client.events()
        self._names: dict[str, int] = {}
        """First ClOrdID of an order, by its name."""
        self._called: dict[int, str] = {}
        self._entered = 0
        self._unmatched: list[MessageReceived] = []
        for order in client.orders:
            self._call(order.chain[0] if order.chain else order.cl_ord_id, "")

    # Commands.

    async def do(self, command: ConsoleCommand) -> list[str]:
        """Run a command and return the lines to print."""
        match command.name:
            case "help":
                return [language.HELP]
            case "status":
                return list(self.status())
            case "wait":
                await asyncio.sleep(language.seconds(parse_duration(command.words[0], "wait")))
                return []
            case "expect":
                return [await self.expect(command)]
        name, values = self._request(command)
        try:
            number = await self.client.send(name, values)
        except EncodeError as error:
            raise UsageError(f"{name}: {error}.") from None
        return [f"> {number} {name}{self._of_request(values)}"]

    def _request(self, command: ConsoleCommand) -> tuple[str, dict[str, Any]]:
        words, make = command.words, self._requests
        match command.name:
            case "new":
                price = language.price(words[3]) if len(words) > 3 else None
                more = self._fields("NewOrderSingle", command)
                request = make.new(
                    language.side(words[0]), language.security(words[1]),
                    language.quantity(words[2]), price, **more,
                )  # fmt: skip
                self._call(request[1]["clOrdID"], command.label)
                return request
            case "modify":
                price = language.price(words[2]) if len(words) > 2 else None
                more = self._fields("OrderCancelReplaceRequest", command)
                order = self._order(words[0])
                amount = language.quantity(words[1])
                return make.modify(order, amount, price, **more)
            case "cancel":
                more = self._fields("OrderCancelRequest", command)
                return make.cancel(self._order(words[0]), **more)
            case "mass-cancel":
                more = self._fields("OrderMassActionRequest", command)
                return make.mass_cancel(**more)
            case "cross":
                more = self._fields("NewOrderCross", command)
                request = make.cross(
                    language.security(words[0]), language.quantity(words[1]),
                    language.price(words[2]), self.client.settings.firm, **more,
                )  # fmt: skip
                for side in request[1]["noSides"]:
                    self._call(side["clOrdID"], "")
                return request
        return make.message(words[0], self._fields(words[0], command))

    def _fields(self, name: str, command: ConsoleCommand) -> dict[str, Any]:
        return {key: self._requests.value(name, key, text) for key, text in command.fields}

    def _call(self, client_id: int, label: str) -> None:
        if label in self._names:
            raise UsageError(f"An order named {label!r} already exists; choose another name.")
        self._entered += 1
        for name in (str(self._entered), label):
            if name:
                self._names[name] = client_id
        self._called[client_id] = label or str(self._entered)

    def _order(self, name: str) -> ClientOrder:
        client_id = self._names.get(name)
        if client_id is None and name.isascii() and name.isdigit():
            client_id = int(name)  # a ClOrdID, as status shows it
        order = None if client_id is None else self.client.orders.get(client_id)
        if order is None:
            known = ", ".join(dict.fromkeys(self._called.values())) or "none yet"
            raise UsageError(f"No order {name!r}; known orders: {known}.")
        return order

    def _name_of(self, client_id: int | None) -> str:
        order = None if client_id is None else self.client.orders.get(client_id)
        first = order.chain[0] if order is not None and order.chain else client_id
        return "" if first is None else self._called.get(first, "")

    def _of_request(self, values: Mapping[str, Any]) -> str:
        name = self._name_of(values.get("origClOrdID")) or self._name_of(values.get("clOrdID"))
        return f" of order {name}" if name else ""

    # Events.

    async def next_line(self) -> str | None:
        """Wait for the next event and return its line; None when the client is closed."""
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
            case MessageReceived():
                prefix = "retransmitted " if event.again else ""
                return f"< {event.number} {prefix}{self.report(event)}"
            case SessionEstablished():
                return (
                    f"session {event.session_id} established; next sequence number "
                    f"{event.next_outgoing}"
                )
            case SessionRefused():
                return f"session rejected: {event.code}"
            case NotAppliedGap():
                last = event.first + event.count - 1
                return f"not applied: messages {event.first} to {last}; send them again"
            case RetransmissionRefused() if not event.count:
                return f"retransmission from {event.first} rejected for now: {event.code}"
            case RetransmissionRefused():
                return f"lost: {event.count} reports from {event.first} ({event.code})"
            case SequenceLowered():
                return (
                    f"the gateway continues with sequence number {event.next_number}; "
                    f"expected {event.expected}"
                )
            case ConnectionFailed():
                return f"cannot connect to {event.gateway}: {event.reason}"
            case ConnectionEnded():
                reason = " ".join(filter(None, (event.code, event.reason)))
                return f"connection closed: {reason}"
        return None

    def report(self, event: MessageReceived) -> str:
        """Return a report as a line."""
        values = event.message.values
        name = self._name_of(values.get("origClOrdID")) or self._name_of(values.get("clOrdID"))
        order = f" of order {name}" if name else ""
        fields = [
            f"{key}={_text(values[key])}" for key in _REPORTED if values.get(key) not in (None, "")
        ]
        return f"{event.name}{order}: {' '.join(fields)}"

    def status(self) -> Iterator[str]:
        """Yield lines about the session and its orders."""
        client = self.client
        stage = client.stage.value
        yield (
            f"session {client.settings.session_id}: {stage}, "
            f"next sequence number {client.next_number}"
        )
        for order in client.orders:
            first = order.chain[0] if order.chain else order.cl_ord_id
            name = self._name_of(first) or str(first)
            price = "the market" if order.price is None else order.price
            pending = f", {len(order.pending)} pending requests" if order.pending else ""
            yield (
                f"order {name}: {order.side} {order.quantity} of {order.security_id} at {price}: "
                f"{order.status}, traded {order.cumulative}, left {order.leaves}{pending}"
            )

    # Expectations.

    async def expect(self, command: ConsoleCommand) -> str:
        """Wait for a matching report; earlier reports that do not match are kept for later."""
        report = command.words[0]
        within = PATIENCE_NS if command.within_ns is None else command.within_ns
        nothing = report == NOTHING
        try:
            async with asyncio.timeout(language.seconds(within)):
                while True:
                    found = next((e for e in self._unmatched if self._fits(e, command)), None)
                    if nothing and self._unmatched:
                        raise ExpectationError(
                            f"expected no report, received {self.report(self._unmatched[0])}"
                        )
                    if found is not None:
                        self._unmatched.remove(found)
                        return f"< {found.number} {self.report(found)}"
                    event = await anext(self._events)
                    if isinstance(event, MessageReceived) and self._of_this_run(event):
                        self._unmatched.append(event)
        except TimeoutError:
            if nothing:
                return "no report, as expected"
            received = "; ".join(self.report(each) for each in self._unmatched[:_FEW]) or "nothing"
            if len(self._unmatched) > _FEW:
                received += f"; and {len(self._unmatched) - _FEW} more"
            raise ExpectationError(
                f"{self._meant(command)} did not arrive within {language.seconds(within):g} s; "
                f"received: {received}"
            ) from None
        except StopAsyncIteration:
            raise ExpectationError(
                f"{self._meant(command)} did not arrive: the client was closed"
            ) from None

    def _of_this_run(self, event: MessageReceived) -> bool:
        """Whether a report belongs to this run, and is not retransmitted from an earlier one."""
        values = event.message.values
        ids = (values.get("clOrdID"), values.get("origClOrdID"))
        return not event.again or any(self._name_of(each) for each in ids)

    @staticmethod
    def _meant(command: ConsoleCommand) -> str:
        fields = [f"{key}={value}" for key, value in command.fields]
        return " ".join([*command.words, *fields])

    def _fits(self, event: MessageReceived, command: ConsoleCommand) -> bool:
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
                raise UsageError(
                    f"{event.name} has no field {key!r}; its fields: {', '.join(values)}."
                )
        return all(_same(values[key], text) for key, text in command.fields)


_FEW = 5
_REPORTED = (
    "ordStatus", "orderQty", "price", "lastQty", "lastPx", "cumQty", "leavesQty", "ordRejReason",
    "massActionResponse", "refMsgType", "businessRejectReason", "text", "orderID",
)  # fmt: skip
"""Fields of a report to print, if present."""


def _text(value: Any) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _same(value: Any, text: str) -> bool:
    """Whether a field value equals the text of an expectation."""
    if value is None:
        return text in ("", "none")
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        try:
            return Decimal(value) == Decimal(text)
        except ArithmeticError:
            return False
    return str(value) == text


_AFTERWARDS_S = 0.5
"""Time to wait for replies after the end of the input."""


async def run_shell(desk: OrderConsole) -> None:
    """Run commands from standard input until it ends, and print what arrives."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    typed = sys.stdin.isatty()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    # A daemon thread: a blocking read of standard input must not delay the exit of the process.
    threading.Thread(target=listen, daemon=True).start()
    printing = asyncio.create_task(_show(desk))
    try:
        if typed:
            _print_line('Type "help" for the commands, "quit" to end.')
        while (line := await lines.get()) is not None:
            try:
                command = parse(line)
                if command is None:
                    continue
                if command.name == "quit":
                    return
                for text in await desk.do(command):
                    _print_line(text)
            except PregaoError as error:
                _print_line(str(error))
        await asyncio.sleep(_AFTERWARDS_S)
    finally:
        printing.cancel()
        with suppress(asyncio.CancelledError):
            await printing


async def _show(desk: OrderConsole) -> None:
    while (line := await desk.next_line()) is not None:
        _print_line(line)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class ScriptStep(NamedTuple):
    """A command of a script and its line number."""

    number: int
    command: ConsoleCommand


def read_script(path: Path) -> list[ScriptStep]:
    """Read the steps of a script; errors name the line."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file.") from None
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            command = parse(line)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if command is not None:
            steps.append(ScriptStep(number, command))
    if not steps:
        raise UsageError(f"{path} contains no command.")
    return steps


async def play(desk: OrderConsole, steps: list[ScriptStep], name: str) -> None:
    """Run a script and print what is sent and the expectations that were met."""
    expectations = 0
    for number, command in steps:
        if command.name == "quit":
            break
        try:
            for line in await desk.do(command):
                sys.stdout.write(f"{line}\n")
        except ExpectationError as error:
            raise ExpectationError(f"{name}:{number}: {error}") from None
        except PregaoError as error:
            raise UsageError(f"{name}:{number}: {error}") from None
        expectations += command.name == "expect"
    sys.stdout.write(f"{name}: {len(steps)} steps, {expectations} expectations, all met\n")
    sys.stdout.flush()
