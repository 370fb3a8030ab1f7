"""The settings of a gateway's sessions, and the accounts that may open them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pregao.clock import MINUTE, SECOND
from pregao.entrypoint.framing import MAX_MESSAGE
from pregao.entrypoint.messages import VERSIONS
from pregao.entrypoint.session_state import LAST_NUMBER
from pregao.entrypoint.throttle import ThrottleLimit

MAX_GAP = 2**31
"""Numbers that a client may skip at a time: one message with a wrong number does not use up the
32 bits that they have."""


def skips_too_far(number: int, expected: int) -> bool:
    """Whether too few numbers, or none, could follow one that a client skips to."""
    return number - expected > MAX_GAP or number >= LAST_NUMBER > expected


@dataclass(frozen=True, slots=True)
class Account:
    """A session that may be opened: whose it is, and what opens it."""

    session_id: int
    firm: int
    access_key: str = field(repr=False)
    blocked: bool = False
    throttle: ThrottleLimit | None = None
    locations: frozenset[str] | None = None
    """The sender locations, which tell the access category, that it may use; None: any."""
    traders: frozenset[str] | None = None
    """The traders that may enter and execute; None: any."""
    accounts: frozenset[int] | None = None
    """The accounts that its orders may name; None: any."""


@dataclass(frozen=True, slots=True)
class GatewayRules:
    """What a gateway asks of its peers."""

    gateway: int = 1
    """Which gateway it is: a session is negotiated once with each."""
    versions: tuple[int, ...] = VERSIONS
    accepting: bool = True
    """Are sessions taken? A gateway that waits as a backup takes none."""
    clock_tolerance_ns: int = MINUTE
    """How far the time in a request may be from the gateway's."""
    keep_alive_ms: tuple[int, int] = (1, 60_000)
    """From the guidelines (§4.5.3); the schema's text says 1000 to 60000."""
    own_keep_alive_ms: int | None = None
    """After how much silence the gateway sends Sequence; None: as the client asked for itself."""
    silent_intervals: int = 2
    """After how many of the peer's intervals its silence ends the connection."""
    handshake_ns: int = 10 * SECOND
    """How long a connection may take to be established."""
    establish_attempts: int = 0
    """How many refused Establish messages a session has in a day; 0: any number."""
    max_message: int = MAX_MESSAGE
    """The longest message that is read, up to 16,384 bytes (§4.4); the schema says 2,048."""
    retransmission_limit: int = 1000
    retransmission_part: int = 100
    """How many messages are sent again at a time, before the connection is asked to go on."""
