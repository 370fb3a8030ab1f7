"""The lines of ``pregao ep``: what a trader types or a script says, read into commands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from pregao.clock import SECOND, parse_span
from pregao.errors import UsageError

HELP = """\
new BUY|SELL SECURITY QUANTITY [PRICE] [as NAME]   a new order; without a price at the market
modify ORDER QUANTITY [PRICE]                      another quantity and price
cancel ORDER                                       the end of an order
mass-cancel [side=BUY] [securityID=…]              the end of all orders, or of some
cross SECURITY QUANTITY PRICE                      a purchase and a sale against each other
send MESSAGE FIELD=VALUE …                         any business message of EntryPoint
status                                             the session and its orders
wait SPAN                                          do nothing for a while, such as 500ms
expect REPORT [ORDER] [FIELD=VALUE …] [within SPAN]
                                                   wait for a report: new, modify, cancel, trade,
                                                   reject, mass-action, business-reject, the name
                                                   of a message, or nothing
help, quit

Any command may have more FIELD=VALUE, by EntryPoint's names: timeInForce=GOOD_TILL_CANCEL.
An ORDER is the name it was given, or its number in this run: 1, 2, …\
"""

_COMMANDS = {
    "new": (3, 4), "modify": (2, 3), "cancel": (1, 1), "mass-cancel": (0, 0), "cross": (3, 3),
    "send": (1, 1), "status": (0, 0), "wait": (1, 1), "expect": (1, 2), "help": (0, 0),
    "quit": (0, 0),
}  # fmt: skip
_USAGE = {line.split()[0]: line.split("   ")[0] for line in HELP.splitlines() if line[:1].isalpha()}
REPORTS = {
    "new": "ExecutionReport_New", "modify": "ExecutionReport_Modify",
    "cancel": "ExecutionReport_Cancel", "trade": "ExecutionReport_Trade",
    "reject": "ExecutionReport_Reject", "mass-action": "OrderMassActionReport",
    "business-reject": "BusinessMessageReject",
}  # fmt: skip
"""What reports are called in an expectation."""
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Command:
    """One line."""

    name: str
    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """What the order is to be called."""
    within_ns: int | None = None


def parse(line: str) -> Command | None:
    """The command of a line; None of a line that is empty or a comment."""
    try:
        parts = shlex.split(line, comments=True)
    except ValueError as error:
        raise UsageError(f"This line cannot be read: {error}.") from None
    if not parts:
        return None
    name, *rest = parts
    if name not in _COMMANDS:
        raise UsageError(f"There is no command {name!r}; help lists them.")
    label, within, words, fields = "", None, [], []
    rest.reverse()
    while rest:
        part = rest.pop()
        if part in ("as", "within"):
            if not rest:
                raise UsageError(f"Something is missing behind {part!r}.")
            if part == "as":
                label = rest.pop()
            else:
                within = parse_span(rest.pop(), "within")
        elif "=" in part:
            key, _, value = part.partition("=")
            fields.append((key, value))
        else:
            words.append(part)
    least, most = _COMMANDS[name]
    if not least <= len(words) <= most:
        raise UsageError(f"It is: {_USAGE.get(name, name)}")
    if name == "expect" and words[0] in REPORTS:
        words[0] = REPORTS[words[0]]
    return Command(name, tuple(words), tuple(fields), label, within)


def quantity(text: str) -> int:
    """A quantity."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"A quantity is a whole number, not {text!r}.")
    return int(text)


def price(text: str) -> Decimal:
    """A price."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UsageError(f"A price is a number such as 10.50, not {text!r}.") from None


def security(text: str) -> int:
    """The number of an instrument."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"An instrument is named by its number (securityID), not {text!r}.")
    return int(text)


def side(text: str) -> str:
    """A side."""
    if text.upper() not in ("BUY", "SELL"):
        raise UsageError(f"A side is BUY or SELL, not {text!r}.")
    return text.upper()


def seconds(span_ns: int) -> float:
    """A span for those who count in seconds."""
    return span_ns / SECOND
