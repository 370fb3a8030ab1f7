"""Settings of a gateway, and the accounts of its sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

from pregao.clock import MINUTE, SECOND
from pregao.entrypoint.framing import MAX_MESSAGE
from pregao.entrypoint.messages import VERSIONS
from pregao.entrypoint.session_state import LAST_NUMBER
from pregao.entrypoint.throttle import ThrottleLimit

MAX_GAP = 2**31
"""Maximum number of sequence numbers that a client may skip in one step, so that one wrong number
does not use up the 32 bits.
"""


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
    """Messages resent per part, before the owner must call `go_on` for the next."""
