"""Cancel on disconnect (§4.7): whether a session's orders are cancelled, when, and why.

Which orders that means is the market's business: all but good-till ones and those that take part
in an auction.
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
"""The reason in the report of a cancelled order (100, 101, 102), by what the session asked for."""


def due_ns(asked: str, window_ms: int, now_ns: int, *, graceful: bool) -> int | None:
    """When orders are cancelled after a connection ended; None if they are not.

    ``graceful`` means that the client sent Terminate; a Terminate of the gateway is none.
    """
    triggering = (ALWAYS, ON_TERMINATE) if graceful else (ALWAYS, ON_LOSS)
    return now_ns + window_ms * MILLISECOND if asked in triggering else None
