"""Settings of clients and gateways, and the limits of a session: throttle and keep-alive.

The throttle (§4.9) allows a maximum number of messages within a sliding window. Keep-alive
(§4.5.4.1) is the same on both sides of a connection.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from pregao.clock import MILLISECOND, MINUTE, SECOND
from pregao.entrypoint import session_state as cod
from pregao.entrypoint.framing import MAX_MESSAGE
from pregao.entrypoint.messages import VERSIONS
from pregao.entrypoint.session_state import LAST_NUMBER

MAX_GAP = 2**31
"""Maximum number of sequence numbers that a client may skip in one step, so that one wrong number
does not use up the 32 bits.
"""


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


@dataclass(frozen=True, slots=True)
class ThrottleLimit:
    """Maximum number of messages of a session within a window of milliseconds."""

    messages: int
    window_ms: int


class Throttle:
    """Counts the messages within the window; refused messages do not count."""

    def __init__(self, limit: ThrottleLimit | None) -> None:
        self._limit = limit
        self._times: deque[int] = deque()

    def admits(self, now_ns: int) -> bool:
        """Whether a message may be accepted now; if so, counts it."""
        if self._limit is None:
            return True
        times = self._times
        start = now_ns - self._limit.window_ms * MILLISECOND
        while times and times[0] <= start:
            times.popleft()
        if len(times) >= self._limit.messages:
            return False
        times.append(now_ns)
        return True


def skips_too_far(number: int, expected: int) -> bool:
    """Whether skipping to a number would leave too few sequence numbers, or none."""
    return number - expected > MAX_GAP or number >= LAST_NUMBER > expected


@dataclass(frozen=True, slots=True)
class SessionAccount:
    """A session that may be opened: its firm, credentials and permissions."""

    session_id: int
    firm: int
    access_key: str = field(repr=False)
    blocked: bool = False
    throttle: ThrottleLimit | None = None
    locations: frozenset[str] | None = None
    """Sender locations, which determine the access category, that it may use; None: any."""
    traders: frozenset[str] | None = None
    """Traders that may enter and execute; None: any."""
    accounts: frozenset[int] | None = None
    """Trading accounts that its orders may name; None: any."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Requirements and limits of a gateway."""

    gateway: int = 1
    """Number of the gateway: a session is negotiated once with each."""
    versions: tuple[int, ...] = VERSIONS
    accepting: bool = True
    """Whether sessions are accepted; a standby gateway accepts none."""
    clock_tolerance_ns: int = MINUTE
    """Maximum difference between the time in a request and the gateway's."""
    keep_alive_ms: tuple[int, int] = (1, 60_000)
    """Allowed intervals, from the guidelines (§4.5.3); the schema's text says 1000 to 60000."""
    own_keep_alive_ms: int | None = None
    """Interval after which the gateway sends Sequence; None: the client's own interval."""
    silent_intervals: int = 2
    """Keep-alive intervals of silence after which the connection ends."""
    handshake_ns: int = 10 * SECOND
    """Time allowed for establishing a session."""
    establish_attempts: int = 0
    """Refused Establish messages allowed per session and day; 0: unlimited."""
    max_message: int = MAX_MESSAGE
    """Maximum length of a received message, up to 16,384 bytes (§4.4); the schema says 2,048."""
    retransmission_limit: int = 1000
    retransmission_part: int = 100
    """Messages resent per part; the owner calls `continue_retransmission` for the next part."""


class KeepAlive:
    """Timers for sending heartbeats and for detecting a silent peer."""

    def __init__(self, own_ms: int, peer_ms: int, silent_intervals: int, now_ns: int) -> None:
        self._own_ns = own_ms * MILLISECOND
        self._silence_ns = peer_ms * MILLISECOND * silent_intervals
        self._sent_ns = now_ns
        self._received_ns = now_ns

    def sent(self, now_ns: int) -> None:
        """Record that something was sent."""
        self._sent_ns = now_ns

    def on_received(self, now_ns: int) -> None:
        """Record that something was received."""
        self._received_ns = now_ns

    def heartbeat_due(self, now_ns: int) -> bool:
        """Whether nothing was sent for the own interval."""
        return now_ns >= self._sent_ns + self._own_ns

    def lapsed(self, now_ns: int) -> bool:
        """Whether nothing was received for too long."""
        return now_ns >= self._received_ns + self._silence_ns

    @property
    def next_due_ns(self) -> int:
        """Time at which the next of the two timers expires."""
        return min(self._sent_ns + self._own_ns, self._received_ns + self._silence_ns)
