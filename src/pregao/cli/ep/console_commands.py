"""Command language of ``pregao ep``: parses lines of the shell and of scripts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.units import parse_duration

HELP = """\
new BUY|SELL SECURITY QUANTITY [PRICE] [as NAME]   enter a limit order; a market order if no PRICE
modify ORDER QUANTITY [PRICE]                      change quantity and price
cancel ORDER                                       cancel an order
mass-cancel [side=BUY] [securityID=…]              cancel all orders, or the selected ones
cross SECURITY QUANTITY PRICE                      enter a cross: a buy and a sell order that match
send MESSAGE FIELD=VALUE …                         send any EntryPoint business message
status                                             show the session and its orders
wait SPAN                                          pause, e.g. for 500ms
expect REPORT [ORDER] [FIELD=VALUE …] [within SPAN]
                                                   wait for a report: new, modify, cancel, trade,
                                                   reject, mass-action, business-reject, a message
                                                   name, or nothing
help, quit

Commands accept further FIELD=VALUE with EntryPoint's field names: timeInForce=GOOD_TILL_CANCEL.
ORDER is the NAME of an order, or its number in this run: 1, 2, …\
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
"""Message of each report name in an `expect` command."""
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ConsoleCommand:
    """A parsed line."""

    name: str
    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """Name of the order (`as NAME`)."""
    within_ns: int | None = None


def parse(line: str) -> ConsoleCommand | None:
    """Parse a line; return None for an empty line or a comment."""
    try:
        parts = shlex.split(line, comments=True)
    except ValueError as error:
        raise UsageError(f"Invalid line: {error}.") from None
    if not parts:
        return None
    name, *rest = parts
    if name not in _COMMANDS:
        raise UsageError(f"Unknown command {name!r}; help lists the commands.")
    label, within, words, fields = "", None, [], []
    rest.reverse()
    while rest:
        part = rest.pop()
        if part in ("as", "within"):
            if not rest:
                raise UsageError(f"Missing value after {part!r}.")
            if part == "as":
                label = rest.pop()
            else:
                within = parse_duration(rest.pop(), "within")
        elif "=" in part:
            key, _, value = part.partition("=")
            fields.append((key, value))
        else:
            words.append(part)
    minimum, maximum = _COMMANDS[name]
    if not minimum <= len(words) <= maximum:
        raise UsageError(f"Usage: {_USAGE.get(name, name)}")
    if name == "expect" and words[0] in REPORTS:
        words[0] = REPORTS[words[0]]
    return ConsoleCommand(name, tuple(words), tuple(fields), label, within)


def _is_whole(text: str) -> bool:
    """Whether a text is an unsigned integer of at most 64 bits; Python refuses very long ones."""
    return text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 1 << 64


def quantity(text: str) -> int:
    """Parse a quantity."""
    if not _is_whole(text):
        raise UsageError(f"QUANTITY must be an integer, was {text!r}.")
    return int(text)


def price(text: str) -> Decimal:
    """Parse a price."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UsageError(f"PRICE must be a number such as 10.50, was {text!r}.") from None


def security(text: str) -> int:
    """Parse a security ID."""
    if not _is_whole(text):
        raise UsageError(f"SECURITY must be a security ID (an integer), was {text!r}.")
    return int(text)


def side(text: str) -> str:
    """Parse a side."""
    if text.upper() not in ("BUY", "SELL"):
        raise UsageError(f"The side must be BUY or SELL, was {text!r}.")
    return text.upper()


def seconds(span_ns: int) -> float:
    """Convert nanoseconds to seconds."""
    return span_ns / SECOND
