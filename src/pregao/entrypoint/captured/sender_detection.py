"""Detection of the sender of each captured stream, client or exchange, from its messages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pregao.capture.blocks import PacketBlock
from pregao.capture.layers import Flow
from pregao.entrypoint.captured.frame_columns import templates_of
from pregao.entrypoint.messages import FROM_CLIENT, FROM_EXCHANGE
from pregao.schemas.bundle import bundled, bundled_versions

SENDERS: Final = ("client", "exchange")
CLIENT, EXCHANGE, UNKNOWN = 0, 1, -1

_SESSION_CLIENT: Final = frozenset({"Negotiate", "Establish", "RetransmitRequest"})
_SESSION_EXCHANGE: Final = frozenset({
    "NegotiateResponse", "NegotiateReject", "EstablishAck", "EstablishReject", "NotApplied",
    "Retransmission", "RetransmitReject",
})  # fmt: skip
_ONLY = (
    (FROM_CLIENT - FROM_EXCHANGE) | _SESSION_CLIENT,
    (FROM_EXCHANGE - FROM_CLIENT) | _SESSION_EXCHANGE,
)


@cache
def _sender_of_template() -> NDArray[np.int8]:
    """Return the sender by template id, for templates that only one side sends."""
    schemas = [bundled("entrypoint", each.number) for each in bundled_versions("entrypoint")]
    known = {message.id: message.name for schema in schemas for message in schema.messages}
    # The last entry is for bytes that are not a message, and for template ids beyond the table.
    found = np.full(max(known) + 2, UNKNOWN, np.int8)
    for number, name in known.items():
        for sender, names in enumerate(_ONLY):
            if name in names:
                found[number] = sender
    return found


def other_direction(flow: Flow) -> Flow:
    """Return the opposite direction of a flow."""
    return Flow(flow.dst, flow.dst_port, flow.src, flow.src_port)


FlowT = TypeVar("FlowT", bound=Hashable)


class SenderDetector(Generic[FlowT]):
    """Learns from messages which side sends on each flow, and thereby on the opposite one."""

    def __init__(self, flows: Sequence[FlowT], reverse: Callable[[FlowT], FlowT]) -> None:
        """Create a detector.

        Args:
            flows: The flows, addressed by index; the sequence may grow.
            reverse: Returns the opposite direction of a flow.
        """
        self.flows = flows
        self._reverse = reverse
        self._known: dict[FlowT, int] = {}
        self._of_flow: NDArray[np.int8] = np.empty(0, np.int8)

    def of(self, block: PacketBlock) -> NDArray[np.int8]:
        """Return the sender of each message of a block: ``CLIENT``, ``EXCHANGE`` or ``UNKNOWN``."""
        templates = templates_of(block.buffer, block.offset, block.length)
        return self.of_messages(block.flow, templates)

    def of_messages(
        self, flow: NDArray[np.int32], templates: NDArray[np.int32]
    ) -> NDArray[np.int8]:
        """Return the sender of each message by flow and template, and learn from the templates."""
        if len(self._of_flow) < len(self.flows):
            more = np.full(len(self.flows), UNKNOWN, np.int8)
            more[: len(self._of_flow)] = self._of_flow
            self._of_flow = more
        new = self._of_flow[flow] == UNKNOWN
        if new.any():
            senders = _sender_of_template()
            evidence = senders[np.where(templates < len(senders), templates, -1)]
            for number in np.unique(flow[new & (evidence != UNKNOWN)]).tolist():
                own = evidence[(flow == number) & (evidence != UNKNOWN)]
                self._known.setdefault(self.flows[number], int(own[0]))
            for number in np.unique(flow[new]).tolist():
                self._of_flow[number] = self._sender(self.flows[number])
        return self._of_flow[flow]

    def _sender(self, flow: FlowT) -> int:
        own = self._known.get(flow)
        if own is not None:
            return own
        other = self._known.get(self._reverse(flow))
        return UNKNOWN if other is None else 1 - other
