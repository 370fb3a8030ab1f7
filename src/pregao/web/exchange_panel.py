"""Exchange panel of the page: status, market operations, and orders of its own session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from pregao.clock import MINUTE, system_clock
from pregao.entrypoint.client import Client
from pregao.entrypoint.events import MessageReceived
from pregao.entrypoint.request_builder import RequestBuilder, RequestDefaults
from pregao.entrypoint.session_settings import ClientSettings
from pregao.errors import EncodeError, PregaoError, UsageError
from pregao.exchange.host.admin.control_server import send_request
from pregao.web.json_routes import Parameters

T = TypeVar("T")
_PATIENCE_S = 10.0
_SEGMENT = 80
_TRADER = "PAGE"
_SIDES = ("BUY", "SELL")
_AUCTION_NS = 2 * MINUTE
_MAX_QUANTITY = 10**12
_PROTECTED_MS = 15_000
_LIMITS = {
    "new_order_fills": 1,
    "executions": 1,
    "traded_quantity": 1,
    "net_quantity": 1,
    "delta": 10**4,
}
"""Limits of a protection, with the scale of their numbers in the control request."""


class ExchangePanel:
    """Client of a local exchange: its control port, and a session for order entry."""

    def __init__(
        self, control_port: int, settings: ClientSettings, gateways: Sequence[tuple[str, int]]
    ) -> None:
        self._port = control_port
        self._settings = settings
        self._gateways = list(gateways)
        self._requests = RequestBuilder(settings.version, RequestDefaults(_SEGMENT, _TRADER))
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pregao-orders", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Close the session, if one was established."""
        if self._client is not None:
            self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the session and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * _PATIENCE_S)

    # Operations

    def status(self) -> dict[str, Any]:
        """Return the status of the exchange and the orders of the page's session."""
        data = self._send({"command": "status"})
        client = self._client
        orders = [] if client is None else list(client.orders)
        return data | {
            "own_session": str(self._settings.session_id),
            "own_orders": [
                {
                    "id": None if order.order_id is None else str(order.order_id),
                    "security_id": str(order.security_id),
                    "side": order.side,
                    "quantity": order.quantity,
                    "price": None if order.price is None else str(order.price),
                    "traded": order.cumulative,
                    "status": order.status,
                }
                for order in orders[-20:]
            ],
        }

    def do(self, given: Parameters) -> dict[str, Any]:
        """Run a command of market operations."""
        name = given.text("command")
        make = _COMMANDS.get(name)
        if make is None:
            raise UsageError(f"command must be one of {', '.join(_COMMANDS)}; was {name!r}.")
        return self._send({"command": name, **make(given)})

    def _send(self, request: dict[str, Any]) -> dict[str, Any]:
        response = send_request(self._port, request)
        if "error" in response:
            message = str(response["error"])
            raise UsageError(message if message.endswith((".", "?")) else f"{message}.")
        return response

    # Orders

    def order(self, given: Parameters) -> dict[str, Any]:
        """Enter an order and return the exchange's response."""
        side = given.text("side").upper()
        if side not in _SIDES:
            raise UsageError(f"side must be {' or '.join(_SIDES)}, was {side[:60]!r}.")
        security = given.whole("id", minimum=1)
        quantity = given.whole("quantity", minimum=1, maximum=_MAX_QUANTITY)
        price = _price(given.text("price", ""))
        with self._lock:
            name, values = self._requests.new(side, security, quantity, price)
        try:
            received = self._run(self._sent(name, values))
        except EncodeError as error:
            raise UsageError(f"Cannot encode the order: {error}.") from None
        except TimeoutError:
            raise PregaoError(f"No response of the exchange within {_PATIENCE_S:g} s.") from None
        return {
            "answer": received.name,
            "number": received.number,
            "values": {key: _shown(value) for key, value in received.message.values.items()},
        }

    async def _sent(self, name: str, values: Mapping[str, Any]) -> MessageReceived:
        async with self._opening:
            if self._client is None:
                client = Client(self._settings, self._gateways)
                client.start()
                try:
                    await client.ready(timeout_s=_PATIENCE_S)
                except BaseException:
                    await client.close()
                    raise
                self._client = client
        return await self._client.request(name, values, _PATIENCE_S)


def _price(text: str) -> Decimal | None:
    """Parse a limit price; None for a market order."""
    if not text.strip():
        return None
    try:
        price = Decimal(text.strip().replace(",", "."))
    except InvalidOperation:
        raise UsageError(f"price must be a number such as 39.45, was {text!r}.") from None
    if not price.is_finite():
        raise UsageError(f"price must be a finite number such as 39.45, was {text!r}.")
    return price


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | str) else str(value)


def _of_symbol(given: Parameters) -> dict[str, Any]:
    return {"symbol": given.text("symbol")}


def _with(*names: str) -> Callable[[Parameters], dict[str, Any]]:
    """Return a reader of a request with fields that the exchange checks; empty ones are omitted."""

    def read(given: Parameters) -> dict[str, Any]:
        fields = {name: given.text(name, "").strip() for name in names}
        return _of_symbol(given) | {name: value for name, value in fields.items() if value}

    return read


def _quantity(given: Parameters) -> dict[str, Any]:
    return {"quantity": given.whole("quantity", minimum=0, maximum=_MAX_QUANTITY)}


def _changed_quantity(given: Parameters) -> dict[str, Any]:
    return _quantity(given) if given.whole("quantity", 0, maximum=_MAX_QUANTITY) else {}


def _trade(given: Parameters) -> dict[str, Any]:
    return {"trade": given.whole("trade", minimum=1)}


def _protection(given: Parameters) -> dict[str, Any]:
    """Return the request for a protection with one limit, of an account in one instrument."""
    limit = given.text("limit")
    if limit not in _LIMITS:
        raise UsageError(f"limit must be one of {', '.join(_LIMITS)}; was {limit!r:.60}.")
    scopes = {name: given.text(name) for name in ("counts", "cancels")}
    return {
        **{
            name: given.whole(name, minimum=0, maximum=_MAX_QUANTITY)
            for name in ("id", "firm", "account")
        },
        "references": [{"watch": given.text("symbol"), **scopes}],
        "interval_ms": _PROTECTED_MS,
        limit: given.whole("maximum", minimum=1, maximum=_MAX_QUANTITY) * _LIMITS[limit],
    }


_COMMANDS: dict[str, Callable[[Parameters], dict[str, Any]]] = {
    "phase": lambda given: {"group": given.text("group", "all"), "phase": given.text("phase")},
    "halt": _of_symbol,
    "forbid": _of_symbol,
    "resume": _of_symbol,
    "auction": lambda given: _of_symbol(given) | {"until_ns": system_clock() + _AUCTION_NS},
    "bust": lambda given: _of_symbol(given) | _trade(given),
    "trade": lambda given: _with("price")(given) | _quantity(given),
    "amend-trade": lambda given: _with("price")(given) | _trade(given) | _changed_quantity(given),
    "delete-side": _with("side"),
    "reset-book": _of_symbol,
    "reset-stream": lambda given: {"channel": given.whole("channel", minimum=0)},
    "blacklist": lambda given: _of_symbol(given) | {"remove": bool(given.text("remove", ""))},
    "delta": _with("delta"),
    "protect": _protection,
    "settlement": _with("price"),
    "closing": _with("price"),
    "reference": _with("price"),
    "open-interest": lambda given: _of_symbol(given) | _quantity(given),
    "band": _with("kind", "limits", "midpoint", "low", "high"),
    "quantity-band": lambda given: (
        _of_symbol(given) | {"maximum": given.whole("maximum", minimum=0, maximum=_MAX_QUANTITY)}
    ),
    "news": lambda given: {"headline": given.text("headline")},
}
