"""Tracking of a session's orders from its requests and reports.

An order is identified by the client's numbers of its requests, each of which names the previous
one, and by the exchange's number, which does not change (§7.7). An unanswered request is pending;
one that the exchange did not receive is reported by NotApplied and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from pregao.entrypoint.events import MessageReceived, NotAppliedGap
from pregao.errors import PregaoError, UsageError
from pregao.sbe.codec import SbeMessage

_ANSWERED_BY: Final = (
    "clOrdID", "securityReqID", "posReqID", "allocID", "quoteID", "crossID",
)  # fmt: skip
"""Fields by which a report names the request that it answers, the most specific first."""

AnswerKey = tuple[str, int]
"""The field that identifies a request, and its value."""


class NotAppliedError(PregaoError):
    """The exchange did not receive a request: it was lost with its connection."""


@dataclass(slots=True)
class _Pending:
    answer: asyncio.Future[MessageReceived]
    number: int | None = None
    """Sequence number of the request, once it is sent."""
    first_answer: int = 0
    """Lowest sequence number that its answer can have."""


class AnswerMatcher:
    """The pending requests of a client, with a future for the answer to each."""

    def __init__(self) -> None:
        self._pending: dict[AnswerKey, _Pending] = {}
        self._by_number: dict[int, _Pending] = {}
        """Requests that were sent, by sequence number."""

    def expect(self, key: AnswerKey) -> asyncio.Future[MessageReceived]:
        """Add a request that is about to be sent, and return the future of its answer."""
        if key in self._pending:
            raise UsageError(f"A request with {key[0]} {key[1]} is already pending.")
        answer: asyncio.Future[MessageReceived] = asyncio.get_running_loop().create_future()
        self._pending[key] = _Pending(answer)
        return answer

    def sent(self, key: AnswerKey, number: int, first_answer: int) -> None:
        """Record that a request was sent, and the lowest number that its answer can have."""
        pending = self._pending[key]
        pending.number, pending.first_answer = number, first_answer
        self._by_number[number] = pending

    def remove(self, key: AnswerKey) -> None:
        """Remove a request."""
        pending = self._pending.pop(key)
        if pending.number is not None:
            self._by_number.pop(pending.number, None)

    def received(self, event: MessageReceived) -> None:
        """Resolve the request that a message answers, if there is one."""
        values = event.message.values
        if event.name == "BusinessMessageReject":
            pending = self._by_number.get(values["refSeqNum"])
        else:
            keys = ((name, values.get(name)) for name in _ANSWERED_BY)
            pending = next((self._pending[key] for key in keys if key in self._pending), None)
        if pending is None or pending.number is None or event.number < pending.first_answer:
            return
        if not pending.answer.done():
            pending.answer.set_result(event)

    def not_applied(self, gap: NotAppliedGap) -> None:
        """Fail the requests that the exchange did not receive."""
        for number, pending in self._by_number.items():
            if gap.first <= number < gap.first + gap.count and not pending.answer.done():
                pending.answer.set_exception(
                    NotAppliedError(
                        f"The exchange did not receive message {number}; send it again."
                    )
                )

    def lowered(self, next_number: int) -> None:
        """Record that the exchange continues with a lower number than it had reached."""
        for pending in self._pending.values():
            pending.first_answer = min(pending.first_answer, next_number)

    def renumber(self) -> None:
        """Record that sequence numbers restart, e.g. on a new day."""
        self._by_number.clear()
        for pending in self._pending.values():
            pending.first_answer = 0

    def cancel(self) -> None:
        """Cancel all requests."""
        for pending in self._pending.values():
            pending.answer.cancel()


def answer_key(name: str, values: Mapping[str, Any]) -> AnswerKey | None:
    """Return what identifies the answer to a request, or None."""
    if name == "NewOrderCross":
        return "crossID", values["crossID"]
    for name_of_id in _ANSWERED_BY:
        if values.get(name_of_id) is not None:
            return name_of_id, values[name_of_id]
    return None


PENDING: Final = "PENDING_NEW"
"""Status of an order whose entry is unanswered."""
NOT_APPLIED: Final = "NOT_APPLIED"
"""Status of an order that never reached the exchange."""
CLOSED: Final = frozenset({"FILLED", "CANCELED", "REJECTED", "EXPIRED", NOT_APPLIED})
"""Final statuses: nothing follows them except the cancellation of a trade."""

_NEW = ("SimpleNewOrder", "NewOrderSingle")
_CHANGES = ("SimpleModifyOrder", "OrderCancelReplaceRequest", "OrderCancelRequest")


@dataclass(slots=True)
class ClientOrder:
    """An order, from the client's point of view."""

    cl_ord_id: int
    """The client's number of the last request that took effect."""
    security_id: int
    side: str
    quantity: int
    price: Decimal | None = None
    time_in_force: str = "DAY"
    max_floor: int | None = None
    """Disclosed quantity, or None if all of it is shown."""
    status: str = PENDING
    order_id: int | None = None
    secondary_order_id: int | None = None
    """Number of the order in market data."""
    cumulative: int = 0
    """Traded quantity."""
    leaves: int = 0
    """Open quantity."""
    chain: list[int] = field(default_factory=list)
    """The client's numbers of all requests that took effect, in order."""
    pending: dict[int, str] = field(default_factory=dict)
    """Unanswered requests, by the client's number."""

    @property
    def working(self) -> bool:
        """Whether the order is open in the market."""
        return self.order_id is not None and self.leaves > 0 and self.status not in CLOSED


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that was sent."""

    number: int
    """Sequence number."""
    name: str
    cl_ord_ids: tuple[int, ...]
    """The client's numbers in it: one, or one per side of a cross."""


class OrderTracker:
    """Tracks the orders of one session."""

    def __init__(self) -> None:
        self._by_client: dict[int, ClientOrder] = {}
        self._by_exchange: dict[int, ClientOrder] = {}
        self._open: dict[int, PendingRequest] = {}
        """Unanswered requests, by sequence number."""
        self._waiting: dict[int, int] = {}
        """Unanswered client numbers, with the sequence number of the request."""
        self._first_reports: dict[int, int] = {}
        """Lowest sequence number of a report on the last request with each client number."""
        self.last_client_id: int | None = None
        """Highest client number of the session's requests and reports."""

    def __iter__(self) -> Iterator[ClientOrder]:
        """Iterate over all orders, in the order in which they became known."""
        seen: set[int] = set()
        for order in [*self._by_client.values(), *self._by_exchange.values()]:
            if id(order) not in seen:
                seen.add(id(order))
                yield order

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def working(self) -> list[ClientOrder]:
        """Return the orders that are open in the market."""
        return [order for order in self if order.working]

    def get(self, cl_ord_id: int) -> ClientOrder | None:
        """Return the order with this client number, or None.

        Args:
            cl_ord_id: The client's number of any of its requests, accepted or not.
        """
        return self._by_client.get(cl_ord_id)

    def by_exchange(self, order_id: int) -> ClientOrder | None:
        """Return the order with this exchange number, or None.

        Args:
            order_id: The exchange's number of the order.
        """
        return self._by_exchange.get(order_id)

    @property
    def unanswered(self) -> list[PendingRequest]:
        """The unanswered requests, oldest first."""
        return list(self._open.values())

    # Outgoing messages.

    def owner(self, cl_ord_id: int) -> str:
        """Return what a new request with this client number would be confused with, or nothing.

        Args:
            cl_ord_id: The client's number of a request that is not sent yet.
        """
        if cl_ord_id in self._waiting:
            return "an unanswered request"
        order = self._by_client.get(cl_ord_id)
        if order is not None and order.working and cl_ord_id in order.chain:
            return f"the active order {order.order_id}"
        return ""

    def sent(
        self, number: int, name: str, values: Mapping[str, Any], first_report: int = 0
    ) -> None:
        """Record that a business message was sent with a sequence number.

        Reports numbered below ``first_report`` were sent before it: they belong to an earlier
        request with the same client number.
        """
        sides = values.get("noSides", ()) if name == "NewOrderCross" else ()
        client_ids = client_ids_of(name, values)
        if not client_ids:
            return
        for client_id in client_ids:
            self._answered(client_id)  # a number is used again only after its answer
            self._first_reports[client_id] = first_report
            self._use(client_id)
        self._open[number] = PendingRequest(number, name, client_ids)
        self._waiting |= dict.fromkeys(client_ids, number)
        for side in sides:
            self._entered(side["clOrdID"], values, side["side"])
        if name in _NEW:
            self._entered(client_ids[0], values, values["side"])
        elif name in _CHANGES:
            order = self._meant(values)
            if order is not None:
                order.pending[client_ids[0]] = name
                self._by_client[client_ids[0]] = order

    def _entered(self, client_id: int, values: Mapping[str, Any], side: str) -> None:
        order = ClientOrder(
            client_id,
            values["securityID"],
            side,
            values["orderQty"],
            _price(values.get("price")),
            values.get("timeInForce") or "DAY",
            chain=[client_id],
        )
        order.pending[client_id] = "new"
        self._by_client[client_id] = order

    def _meant(self, values: Mapping[str, Any]) -> ClientOrder | None:
        exchange_id, original = values.get("orderID"), values.get("origClOrdID")
        found = None if exchange_id is None else self._by_exchange.get(exchange_id)
        if found is None and original is not None:
            found = self._by_client.get(original)
        return found

    def renumber(self) -> None:
        """Drop pending requests: sequence numbers restart, e.g. on a new day."""
        self._open.clear()
        self._waiting.clear()
        self._first_reports.clear()

    def lowered(self, next_number: int) -> None:
        """Record that the exchange continues with a lower sequence number than it had reached."""
        for client_id, first in self._first_reports.items():
            self._first_reports[client_id] = min(first, next_number)

    # Incoming messages.

    def not_applied(self, first: int, count: int) -> list[PendingRequest]:
        """Mark messages as not received by the exchange, and return the requests among them."""
        requests = [self._open[n] for n in sorted(self._open) if first <= n < first + count]
        for request in requests:
            self._gave_up(request.number, NOT_APPLIED)
        return requests

    def received(self, name: str, message: SbeMessage, number: int) -> ClientOrder | None:
        """Apply a business message of the exchange with its sequence number.

        Returns the order that it changed, or None.
        """
        values = message.values
        if name == "BusinessMessageReject":
            return self._gave_up(values["refSeqNum"], "REJECTED")
        client_id: int | None = values.get("clOrdID")
        if client_id is not None:
            self._use(client_id)
            if not self._current(client_id, number):
                client_id = None  # of an earlier request with the number of a later one
            else:
                self._answered(client_id)
        if not name.startswith("ExecutionReport_"):
            return None
        order = self._order_of(values, number)
        if order is None:
            return None
        match name:
            case "ExecutionReport_New":
                self._terms(order, values)
                order.status, order.leaves = values["ordStatus"], order.quantity - order.cumulative
            case "ExecutionReport_Modify":
                self._terms(order, values)
                order.status = "PARTIALLY_FILLED" if values["cumQty"] else "NEW"
                order.cumulative, order.leaves = values["cumQty"], values["leavesQty"]
                self._takes_effect(order, values["clOrdID"])
            case "ExecutionReport_Trade":
                self._identify(order, values)
                order.status = values["ordStatus"]
                order.cumulative, order.leaves = values["cumQty"], values["leavesQty"]
            case "ExecutionReport_Cancel":
                self._identify(order, values)
                order.status, order.leaves = values["ordStatus"], 0
                order.cumulative = values["cumQty"]
                self._takes_effect(order, values["clOrdID"])
            case "ExecutionReport_Reject":
                if values["cxlRejResponseTo"] == "NEW" and order.order_id is None:
                    order.status, order.leaves = "REJECTED", 0
        if client_id is not None:
            order.pending.pop(client_id, None)
        return order

    def _use(self, client_id: int) -> None:
        self.last_client_id = max(client_id, self.last_client_id or 0)

    def _current(self, client_id: int, number: int) -> bool:
        """Whether a report belongs to the last request with its client number, or to none sent."""
        return number >= self._first_reports.get(client_id, 0)

    def _terms(self, order: ClientOrder, values: Mapping[str, Any]) -> None:
        self._identify(order, values)
        order.quantity, order.price = values["orderQty"], values["price"]
        order.time_in_force, order.max_floor = values["timeInForce"], values["maxFloor"]

    def _identify(self, order: ClientOrder, values: Mapping[str, Any]) -> None:
        order.order_id = values["orderID"]
        order.secondary_order_id = values["secondaryOrderID"]
        self._by_exchange[values["orderID"]] = order

    def _takes_effect(self, order: ClientOrder, client_id: int | None) -> None:
        """Record that a request changed the order; exchange cancels name an old request or none."""
        if client_id and client_id not in order.chain:
            order.chain.append(client_id)
            order.cl_ord_id = client_id
            self._by_client.setdefault(client_id, order)

    def _order_of(self, values: Mapping[str, Any], number: int) -> ClientOrder | None:
        """Return the order of a report; adds orders that this client did not send."""
        exchange_id, client_id = values.get("orderID"), values.get("clOrdID")
        if exchange_id is not None and exchange_id in self._by_exchange:
            return self._by_exchange[exchange_id]
        for each in (client_id, values.get("origClOrdID")):
            if each is not None and self._current(each, number):
                known = self._by_client.get(each)
                if known is not None and known.order_id in (None, exchange_id):
                    return known
        if exchange_id is None:
            return None
        chain = [] if client_id is None else [client_id]
        order = ClientOrder(
            client_id or 0, values["securityID"], values["side"], values["orderQty"], chain=chain
        )
        if client_id is not None and self._current(client_id, number):
            earlier = self._by_client.get(client_id)
            if earlier is None or earlier.status in CLOSED:
                self._by_client[client_id] = order
        return order

    def _answered(self, client_id: int) -> None:
        number = self._waiting.pop(client_id, None)
        if number is not None:
            others = self._open[number].cl_ord_ids
            if not any(self._waiting.get(each) == number for each in others):
                del self._open[number]

    def _gave_up(self, number: int, status: str) -> ClientOrder | None:
        """Mark a request as never taking effect, and return its order."""
        request, order = self._open.pop(number, None), None
        for client_id in () if request is None else request.cl_ord_ids:
            self._waiting.pop(client_id, None)
            order = self._by_client.get(client_id)
            if order is not None:
                order.pending.pop(client_id, None)
                if order.status == PENDING and order.cl_ord_id == client_id:
                    order.status = status
        return order


def _price(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)


def client_ids_of(name: str, values: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the client's numbers in a request: one per side of a cross, else one or none."""
    if name == "NewOrderCross":
        return tuple(side["clOrdID"] for side in values.get("noSides", ()))
    client_id = values.get("clOrdID")
    return () if client_id is None else (client_id,)
