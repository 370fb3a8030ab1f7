"""Cancel on disconnect (§4.7): whether and when a session's orders are canceled, and why.

The market selects the orders: all except good-till ones and those in an auction.
"""

from __future__ import annotations

from typing import Final

from pregao.clock import MILLISECOND

MAX_WINDOW_MS: Final = 60_000

NEVER: Final = "DO_NOT_CANCEL_ON_DISCONNECT_OR_TERMINATE"
ON_LOSS: Final = "CANCEL_ON_DISCONNECT_ONLY"
ON_TERMINATE: Final = "CANCEL_ON_TERMINATE_ONLY"
ALWAYS: Final = "CANCEL_ON_DISCONNECT_OR_TERMINATE"

REASONS: Final = {
    ON_LOSS: "CANCEL_ON_HARD_DISCONNECTION",
    ON_TERMINATE: "CANCEL_ON_TERMINATE",
    ALWAYS: "CANCEL_ON_DISCONNECT_AND_TERMINATE",
}
"""Reason in the report of a canceled order (100, 101, 102), by the session's setting."""


def due_ns(requested: str, window_ms: int, now_ns: int, *, graceful: bool) -> int | None:
    """Return the time at which orders are canceled after a connection ended, or None.

    ``graceful`` means that the client sent Terminate; a Terminate of the gateway does not count.
    """
    triggering = (ALWAYS, ON_TERMINATE) if graceful else (ALWAYS, ON_LOSS)
    return now_ns + window_ms * MILLISECOND if requested in triggering else None
