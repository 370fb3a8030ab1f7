"""Detection of messages that the exchange publishes twice with different numbers (§4.6.3.2).

After a failover inside the exchange a message may be published again, marked as a possible resend.
Its business identifier shows whether it was received before.
"""

from __future__ import annotations

from typing import Final

from pregao.sbe.codec import SbeMessage

IDENTIFIERS: Final = {
    "ExecutionReport_New": "execID",
    "ExecutionReport_Modify": "execID",
    "ExecutionReport_Cancel": "execID",
    "ExecutionReport_Reject": "execID",
    "ExecutionReport_Trade": "execID",
    "ExecutionReport_Forward": "execID",
    "SecurityDefinitionResponse": "securityReqID",
    "QuoteRequest": "quoteID",
    "QuoteStatusReport": "quoteID",
    "Quote": "quoteID",
    "QuoteCancel": "quoteID",
    "QuoteRequestReject": "quoteID",
    "PositionMaintenanceReport": "posMaintRptID",
    "AllocationReport": "allocID",
    "OrderMassActionReport": "massActionReportID",
}
"""Identifying field of each message type."""


class DuplicateDetector:
    """Business identifiers received in a trading session."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def is_repeat(self, name: str, message: SbeMessage, *, marked: bool) -> bool:
        """Whether a message marked as a possible resend is a repeat; records it otherwise."""
        field = IDENTIFIERS.get(name)
        number = None if field is None else message.values.get(field)
        if number is None:
            return False
        key = (name, number)
        if marked and key in self._seen:
            return True
        self._seen.add(key)
        return False
