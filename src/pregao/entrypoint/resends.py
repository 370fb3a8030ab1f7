"""Messages of the exchange that come twice under different numbers (§4.6.3.2).

After a takeover inside the exchange a message may be published again, marked as a possible resend.
Its business identifier tells whether it was seen before.
"""

from __future__ import annotations

from typing import Final

from pregao.sbe import Decoded

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
"""Which field identifies a message of each kind."""


class SeenMessages:
    """Remembers the business identifiers of a trading session."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()

    def is_repeat(self, name: str, message: Decoded, *, marked: bool) -> bool:
        """Was a message seen before that says it may have been? Either way it now was."""
        field = IDENTIFIERS.get(name)
        number = None if field is None else message.values.get(field)
        if number is None:
            return False
        key = (name, number)
        if marked and key in self._seen:
            return True
        self._seen.add(key)
        return False
