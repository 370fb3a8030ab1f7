"""Matching of answers to the pending requests of a client.

A report answers a request if it names the request's identifier and the exchange can have sent it
after the request: reports that were numbered before, and are only now retransmitted, answer an
earlier request with the same identifier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pregao.entrypoint.events import MessageReceived, NotAppliedGap
from pregao.errors import PregaoError, UsageError

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

    def forget(self, key: AnswerKey) -> None:
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
    for field in _ANSWERED_BY:
        if values.get(field) is not None:
            return field, values[field]
    return None
