"""Who may negotiate and establish a session (§4.2, §4.3, §4.5.2, §4.5.3), or why not."""

from __future__ import annotations

from typing import Any, Final

from pregao.entrypoint import cancel_on_disconnect as cod
from pregao.entrypoint.credentials import are_right
from pregao.entrypoint.rules import Account, GatewayRules, skips_too_far
from pregao.entrypoint.session_state import SessionState
from pregao.sbe import Decoded, readings, template
from pregao.schemas import bundled

UNAUTHENTICATED: Final = "CREDENTIALS"


def negotiation_reject(
    request: Decoded,
    version: int,
    rules: GatewayRules,
    account: Account | None,
    state: SessionState,
    rival: str | None,
    now_ns: int,
) -> str | None:
    """Why a Negotiate is refused; ``rival`` is the code if another connection has the session."""
    closed = "NEGOTIATE_NOT_ALLOWED"
    found = _common_reject(request, version, rules, account, now_ns, closed) or rival
    if found is not None:
        return found
    assert account is not None
    if request["enteringFirm"] != account.firm:
        return "INVALID_FIRM"
    wanted = request["sessionVerID"]
    if state.negotiated:
        # A backup that takes over goes on with the version that its primary negotiated (§5.5).
        anew = rules.gateway not in state.gateways and wanted == state.session_ver_id
        return None if anew else "ALREADY_NEGOTIATED"
    return None if wanted > state.session_ver_id else "INVALID_SESSIONVERID"


def establishment_reject(
    request: Decoded,
    version: int,
    rules: GatewayRules,
    account: Account | None,
    state: SessionState,
    rival: str | None,
    now_ns: int,
) -> str | None:
    """Why an Establish is refused; ``rival`` is the code if another connection has the session."""
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
    # Above what is expected is a gap, and gaps are accepted (§4.5.5).
    number, expected = request["nextSeqNo"], state.next_incoming
    refused = number < expected or skips_too_far(number, expected)
    return "INVALID_NEXTSEQNO" if refused else None


def wish_of(request: Decoded) -> str | None:
    """What an Establish wants for the end of the connection; None if that is not known."""
    wish: Any = request["cancelOnDisconnectType"]
    if wish is None:
        return cod.NEVER
    return wish if isinstance(wish, str) else None


def answer_to(request: Decoded) -> dict[str, Any]:
    """What every answer to a request repeats of it."""
    return {
        "sessionID": request["sessionID"],
        "sessionVerID": request["sessionVerID"],
        "requestTimestamp": request["timestamp"],
    }


def ending_code(reject: str) -> str:
    """The code of the Terminate that follows a reject: the same, where there is one of its name."""
    return reject if reject in _ENDINGS else "UNSPECIFIED"


_ENDINGS = frozenset(
    member.name
    for field in readings(template(bundled("entrypoint"), "Terminate"))
    if field.enum is not None
    for member in field.enum.members
)


def _common_reject(
    request: Decoded,
    version: int,
    rules: GatewayRules,
    account: Account | None,
    now_ns: int,
    closed: str,
) -> str | None:
    if version not in rules.versions:
        return "PROTOCOL_VERSION_NOT_SUPPORTED"
    if not rules.accepting:
        return closed
    # A session that does not exist is answered as a wrong key is, after the same work: nobody
    # finds out by asking which sessions there are.
    session_id, key = request["sessionID"], "" if account is None else account.access_key
    if not are_right(request["credentials"], session_id, key) or account is None:
        return UNAUTHENTICATED
    if account.blocked:
        return "SESSION_BLOCKED"
    if abs(request["timestamp"] - now_ns) > rules.clock_tolerance_ns:
        return "INVALID_TIMESTAMP"
    return None
