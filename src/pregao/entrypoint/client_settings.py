"""Settings of a client session, and the stages of its connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pregao.entrypoint import cancel_on_disconnect as cod
from pregao.entrypoint.framing import MAX_MESSAGE


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Identity, credentials and parameters of a client session.

    ```python
    settings = ClientSettings(session_id=100_000_001, firm=8, access_key="secret")
    ```
    """

    session_id: int
    firm: int
    """Entering firm of the session."""
    access_key: str = field(repr=False)
    version: int = 2
    """Schema version of the messages; 2 is 8.0.0."""
    keep_alive_ms: int = 1000
    """Interval of the client's heartbeats, from 1 to 60,000 (§4.5.3)."""
    cancel_on_disconnect: str = cod.NEVER
    """When the exchange cancels the session's orders: a value of ``cancelOnDisconnectType``."""
    window_ms: int = 0
    """Time to reconnect before orders are canceled (``codTimeoutWindow``), at most 60,000."""
    silent_intervals: int = 2
    """Keep-alive intervals of silence from the gateway after which the connection ends."""
    retransmission_attempts: int = 10
    """Consecutive requests without effect after which missing messages are abandoned."""
    max_message: int = MAX_MESSAGE
    """Maximum length of a received message, up to 16,384 bytes (§4.4); the schema says 2,048."""
    keep_reports: bool = False
    """Also keep received messages in the store, so that a restarted client has them."""
    app_name: str = "pregao"
    """``clientAppName`` of Negotiate; so too the next two."""
    app_version: str = ""
    ip: str = ""


class ConnectionStage(Enum):
    """Stage of a connection."""

    UNCONNECTED = "unconnected"
    NEGOTIATING = "negotiating"
    ESTABLISHING = "establishing"
    ESTABLISHED = "established"
    ENDED = "ended"
