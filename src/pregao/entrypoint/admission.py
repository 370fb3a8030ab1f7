"""Admission of sessions: checks of Negotiate and Establish (§4.2, §4.3, §4.5.2, §4.5.3).

After a failed authentication the answer is delayed, longer after each failure of the peer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from pregao.clock import MILLISECOND, MINUTE, SECOND
from pregao.entrypoint import session_state as cod
from pregao.entrypoint.framing import are_right
from pregao.entrypoint.session_settings import GatewaySettings, SessionAccount, skips_too_far
from pregao.entrypoint.session_state import SessionState
from pregao.sbe.codec import SbeMessage
from pregao.sbe.value_specs import readings
from pregao.sbe.xml import template
from pregao.schemas.bundle import bundled

UNAUTHENTICATED: Final = "CREDENTIALS"

_ENDINGS = frozenset(
    member.name
    for field in readings(template(bundled("entrypoint"), "Terminate"))
    if field.enum is not None
    for member in field.enum.members
)

MAX_PEERS: Final = 10_000
"""Maximum number of tracked pairs of address and session; the least recent failure is dropped."""
MAX_HELD: Final = 8
"""Maximum number of delayed refusals per pair; further requests are dropped unread."""
FREE_ATTEMPTS: Final = 3
"""Failures answered immediately: a wrong key in a configuration, and some retries."""
FIRST_DELAY_NS: Final = 100 * MILLISECOND
MAX_DELAY_NS: Final = 5 * SECOND
FORGET_NS: Final = 10 * MINUTE
"""A pair without a failure for this long starts over."""


def negotiation_reject(
    request: SbeMessage,
    version: int,
    rules: GatewaySettings,
    account: SessionAccount | None,
    state: SessionState,
    rival: str | None,
    now_ns: int,
) -> str | None:
    """Return the reject code of a Negotiate, or None to accept it.

    ``rival`` is the code to use if another connection has the session.
    """
    closed = "NEGOTIATE_NOT_ALLOWED"
    found = _common_reject(request, version, rules, account, now_ns, closed) or rival
    if found is not None:
        return found
    assert account is not None
    if request["enteringFirm"] != account.firm:
        return "INVALID_FIRM"
    wanted = request["sessionVerID"]
    if state.negotiated:
        # A backup that takes over continues the version that its primary negotiated (§5.5).
        takeover = rules.gateway not in state.gateways and wanted == state.session_ver_id
        return None if takeover else "ALREADY_NEGOTIATED"
    return None if wanted > state.session_ver_id else "INVALID_SESSIONVERID"


def establishment_reject(
    request: SbeMessage,
    version: int,
    rules: GatewaySettings,
    account: SessionAccount | None,
    state: SessionState,
    rival: str | None,
    now_ns: int,
) -> str | None:
    """Return the reject code of an Establish, or None to accept it.

    ``rival`` is the code to use if another connection has the session.
    """
    closed = "ESTABLISH_NOT_ALLOWED"
    found = _common_reject(request, version, rules, account, now_ns, closed) or rival
    if found is not None:
        return found
    if rules.gateway not in state.gateways:
        return "UNNEGOTIATED"
    if version != state.version:
        return "PROTOCOL_VERSION_NOT_SUPPORTED"
    if request["sessionVerID"] != state.session_ver_id:
        return "INVALID_SESSIONVERID"
    low, high = rules.keep_alive_ms
    if not low <= request["keepAliveInterval"] <= high:
        return "INVALID_KEEPALIVE_INTERVAL"
    if request["codTimeoutWindow"] > cod.MAX_WINDOW_MS:
        return "UNSPECIFIED"
    if wish_of(request) is None:
        return "UNSPECIFIED"
    # A number above the expected one is a gap, and gaps are accepted (§4.5.5).
    number, expected = request["nextSeqNo"], state.next_incoming
    refused = number < expected or skips_too_far(number, expected)
    return "INVALID_NEXTSEQNO" if refused else None


def wish_of(request: SbeMessage) -> str | None:
    """Return the cancel-on-disconnect type of an Establish; None if its value is invalid."""
    wish: Any = request["cancelOnDisconnectType"]
    if wish is None:
        return cod.NEVER
    return wish if isinstance(wish, str) else None


def answer_to(request: SbeMessage) -> dict[str, Any]:
    """Return the fields of a request that every answer repeats."""
    return {
        "sessionID": request["sessionID"],
        "sessionVerID": request["sessionVerID"],
        "requestTimestamp": request["timestamp"],
    }


def ending_code(reject: str) -> str:
    """Return the code of the Terminate after a reject: the code of the same name, if it exists."""
    return reject if reject in _ENDINGS else "UNSPECIFIED"


def _common_reject(
    request: SbeMessage,
    version: int,
    rules: GatewaySettings,
    account: SessionAccount | None,
    now_ns: int,
    closed: str,
) -> str | None:
    if version not in rules.versions:
        return "PROTOCOL_VERSION_NOT_SUPPORTED"
    if not rules.accepting:
        return closed
    # An unknown session gets the same answer as a wrong key, after the same work, so that a peer
    # cannot discover which sessions exist.
    session_id, key = request["sessionID"], "" if account is None else account.access_key
    if not are_right(request["credentials"], session_id, key) or account is None:
        return UNAUTHENTICATED
    if account.blocked:
        return "SESSION_BLOCKED"
    if abs(request["timestamp"] - now_ns) > rules.clock_tolerance_ns:
        return "INVALID_TIMESTAMP"
    return None


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_ns: int = 0
    held: int = 0


class Refusals:
    """Failures by peer address and requested session."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, int], _Failures] = OrderedDict()

    def crowded(self, peer: str, session_id: int) -> bool:
        """Whether this pair has the maximum of delayed refusals: its next request is dropped."""
        found = self._failures.get((peer, session_id))
        return found is not None and found.held >= MAX_HELD

    def failed(self, peer: str, session_id: int, now_ns: int) -> int:
        """Record a failure and return the time of its answer; call `released` once it is sent."""
        key = (peer, session_id)
        found = self._failures.setdefault(key, _Failures())
        if now_ns - found.last_ns > FORGET_NS:
            found.count = 0
        found.count += 1
        found.last_ns = now_ns
        self._failures.move_to_end(key)
        if len(self._failures) > MAX_PEERS:
            self._failures.popitem(last=False)
        beyond = found.count - FREE_ATTEMPTS
        if beyond <= 0:
            return now_ns
        found.held += 1
        return now_ns + min(FIRST_DELAY_NS << min(beyond - 1, 16), MAX_DELAY_NS)

    def released(self, peer: str, session_id: int) -> None:
        """Record that a delayed refusal was sent, or its connection was lost."""
        found = self._failures.get((peer, session_id))
        if found is not None and found.held:
            found.held -= 1

    def succeeded(self, peer: str, session_id: int) -> None:
        """Clear the failures of a pair."""
        found = self._failures.get((peer, session_id))
        if found is not None:
            found.count = 0

    def __len__(self) -> int:
        """Return the number of tracked pairs."""
        return len(self._failures)
