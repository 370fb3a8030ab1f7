"""Builders of client requests: message name and field values from order terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pregao.clock import MICROSECOND, Clock, system_clock
from pregao.entrypoint.messages import FROM_CLIENT
from pregao.entrypoint.order_tracker import ClientOrder
from pregao.errors import UsageError
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.value_specs import ValueKind, readings
from pregao.sbe.xml import template
from pregao.schemas.bundle import bundled

_SIMPLE_TYPES: Final = frozenset({"MARKET", "LIMIT"})
_SIMPLE_TIMES: Final = frozenset({"DAY", "IMMEDIATE_OR_CANCEL", "FILL_OR_KILL"})

NamedRequest = tuple[str, dict[str, Any]]
"""The name of a message, and its values."""


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """Values that all requests of a client have in common: trader, location, account."""

    market_segment: int = 80
    """``marketSegmentID`` of the business header."""
    trader: str = "TRADR"
    """``enteringTrader``."""
    location: str = "BVMF"
    """``senderLocation``."""
    account: int | None = None
    """Trading account of the orders, or None."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Values for every request that has a field of that name."""


class RequestBuilder:
    """Builds requests of one schema version, each with its own ``clOrdID``.

    `Client.request_builder` returns the builder of a session.

    ```python
    requests = RequestBuilder(version=2)
    name, values = requests.new("BUY", 200_000_101, 100, Decimal("12.50"))
    ```
    """

    def __init__(
        self,
        version: int,
        entering: RequestDefaults | None = None,
        schema: Schema | None = None,
        *,
        last_client_id: int | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Create a builder.

        Args:
            version: Schema version of the session.
            entering: Values common to all requests.
            schema: Schema of a version that is not bundled, as in `Client.schema`.
            last_client_id: Last ``clOrdID`` of the session; the next ones follow it. By default
                they follow the time in microseconds.
            clock: Returns the time in nanoseconds since 1970.
        """
        self.version = version
        self._schema = bundled("entrypoint", version) if schema is None else schema
        self._known: dict[str, dict[str, ValueKind | None]] = {}
        self.entering = entering or RequestDefaults()
        self._last_id = clock() // MICROSECOND if last_client_id is None else last_client_id

    def next_id(self) -> int:
        """Allocate a ``clOrdID``; every request without one allocates its own."""
        self._last_id += 1
        return self._last_id

    def new(
        self,
        side: str,
        security_id: int,
        quantity: int,
        price: Decimal | None = None,
        *,
        client_id: int | None = None,
        **more: Any,
    ) -> NamedRequest:
        """Build a new order: a limit order if it has a price, else a market order.

        Args:
            side: ``BUY`` or ``SELL``.
            security_id: The instrument.
            quantity: The order quantity.
            price: The limit, or None for a market order.
            client_id: The client's number of the request, ``clOrdID``; allocated by default.
            more: Further fields by their wire names, e.g. ``timeInForce="FILL_OR_KILL"``.

        Returns:
            ``SimpleNewOrder`` if that message can carry the order, else ``NewOrderSingle``.

        Raises:
            UsageError: The message has no such field.
        """
        values = self._terms(client_id, side, security_id, quantity, price) | more
        return self._either("SimpleNewOrder", "NewOrderSingle", values)

    def modify(
        self,
        order: ClientOrder,
        quantity: int,
        price: Decimal | None = None,
        *,
        client_id: int | None = None,
        **more: Any,
    ) -> NamedRequest:
        """Build a request that changes the quantity and price of an order.

        A disclosed quantity is repeated, since a change without ``maxFloor`` removes it (§7.4).

        Args:
            order: The order to modify.
            quantity: The new quantity.
            price: The new limit, or None for a market order.
            client_id: The client's number of the request, ``clOrdID``; allocated by default.
            more: Further fields by their wire names.
        """
        values = self._terms(client_id, order.side, order.security_id, quantity, price)
        values |= {
            "timeInForce": order.time_in_force,
            "orderID": order.order_id,
            "origClOrdID": order.cl_ord_id,
        }
        full = "OrderCancelReplaceRequest"
        name, request = self._either("SimpleModifyOrder", full, values | more)
        if name == full and order.max_floor:
            request.setdefault("maxFloor", min(order.max_floor, quantity))
        return name, request

    def cancel(
        self, order: ClientOrder, *, client_id: int | None = None, **more: Any
    ) -> NamedRequest:
        """Build a request that cancels an order.

        Args:
            order: The order to cancel.
            client_id: The client's number of the request, ``clOrdID``; allocated by default.
            more: Further fields by their wire names.
        """
        values = {
            "clOrdID": self._id(client_id),
            "securityID": order.security_id,
            "side": order.side,
            "orderID": order.order_id,
            "origClOrdID": order.cl_ord_id,
        }
        return self.message("OrderCancelRequest", values | more)

    def mass_cancel(self, *, client_id: int | None = None, **more: Any) -> NamedRequest:
        """Build a request that cancels all orders of the session, or those of a side or instrument.

        Args:
            client_id: The client's number of the request, ``clOrdID``; allocated by default.
            more: Further fields by their wire names, e.g. ``side`` or ``securityID``.
        """
        values = {
            "clOrdID": self._id(client_id),
            "massActionType": "CANCEL_ORDERS",
            "massActionScope": "ALL_ORDERS_FOR_A_TRADING_SESSION",
        }
        return self.message("OrderMassActionRequest", values | more)

    def cross(
        self,
        security_id: int,
        quantity: int,
        price: Decimal,
        firm: int,
        *,
        client_ids: tuple[int, int] | None = None,
        cross_id: int | None = None,
        **more: Any,
    ) -> NamedRequest:
        """Build a cross: a buy and a sell order of the same quantity and price.

        Args:
            security_id: The instrument.
            quantity: The quantity of both orders.
            price: The price of both orders.
            firm: The entering firm of both orders.
            client_ids: The client's numbers of the buy and of the sell order; allocated by default.
            cross_id: The client's number of the cross, ``crossID``; allocated by default.
            more: Further fields by their wire names.
        """
        if client_ids is None:
            client_ids = (self.next_id(), self.next_id())
        sides = [
            {
                "side": side,
                "account": self.entering.account,
                "enteringFirm": firm,
                "clOrdID": client_id,
            }
            for side, client_id in zip(("BUY", "SELL"), client_ids, strict=True)
        ]
        values = {
            "crossID": self._id(cross_id),
            "securityID": security_id,
            "orderQty": quantity,
            "price": price,
            "noSides": sides,
        }
        return self.message("NewOrderCross", values | more)

    def message(self, name: str, values: Mapping[str, Any]) -> NamedRequest:
        """Build any business message, with the common values filled in.

        Args:
            name: Name of the message.
            values: Its field values by name; they override the common values.

        Raises:
            UsageError: Clients do not send this message, or it has no such field.
        """
        if name not in FROM_CLIENT:
            known = ", ".join(sorted(FROM_CLIENT))
            raise UsageError(f"Clients do not send {name!r}; they send {known}.")
        names = self._fields(name)
        common = self._common()
        filled = {key: value for key, value in common.items() if key in names} | dict(values)
        unknown = sorted(filled.keys() - names.keys())
        if unknown:
            raise UsageError(f"{name} has no field {unknown[0]!r}; it has {', '.join(names)}.")
        return name, filled | {"marketSegmentID": self.entering.market_segment}

    def value(self, name: str, field_name: str, text: str) -> Any:
        """Convert a text to the value of a message's field."""
        kinds = self._fields(name)
        if field_name not in kinds:
            raise UsageError(f"{name} has no field {field_name!r}; it has {', '.join(kinds)}.")
        return value_of(kinds[field_name], field_name, text)

    def _id(self, client_id: int | None) -> int:
        return self.next_id() if client_id is None else client_id

    def _common(self) -> dict[str, Any]:
        entering = self.entering
        return {
            "senderLocation": entering.location,
            "enteringTrader": entering.trader,
            "account": entering.account,
            "mmProtectionReset": "FALSE_VALUE",
            "selfTradePreventionInstruction": "NONE",
            **entering.extra,
        }

    def _terms(
        self,
        client_id: int | None,
        side: str,
        security_id: int,
        quantity: int,
        price: Decimal | None,
    ) -> dict[str, Any]:
        return {
            "clOrdID": self._id(client_id),
            "side": side,
            "securityID": security_id,
            "orderQty": quantity,
            "price": price,
            "ordType": "MARKET" if price is None else "LIMIT",
            "timeInForce": "DAY",
        }

    def _either(self, simple: str, full: str, values: dict[str, Any]) -> NamedRequest:
        """Build the simple message if it can carry the values, else the full one."""
        plain = (
            values["ordType"] in _SIMPLE_TYPES
            and values["timeInForce"] in _SIMPLE_TIMES
            and values.keys() <= self._fields(simple).keys()
        )
        return self.message(simple if plain else full, values)

    def _fields(self, name: str) -> dict[str, ValueKind | None]:
        """Return the fields of a message that a client may set, with their value kinds."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = _fields(template(self._schema, name))
        return found


def _fields(message: MessageTemplate) -> dict[str, ValueKind | None]:
    found: dict[str, ValueKind | None] = {
        reading.name: reading.kind
        for reading in readings(message)
        if reading.name != "businessHeader"
    }
    found |= dict.fromkeys((group.name for group in message.groups), None)
    return found | dict.fromkeys((data.name for data in message.data), ValueKind.TEXT)


def value_of(kind: ValueKind | None, name: str, text: str) -> Any:
    """Convert a text to a value of the given kind."""
    if text in ("", "none"):
        return None
    try:
        if kind in (ValueKind.INTEGER, ValueKind.SET, ValueKind.TIME):
            return int(text)
        if kind is ValueKind.DECIMAL:
            return Decimal(text)
    except (ValueError, InvalidOperation):
        raise UsageError(f"{name} must be a number, was {text!r}.") from None
    if kind in (ValueKind.TEXT, ValueKind.ENUM):
        return text
    raise UsageError(f"{name} cannot be set from text.")
