"""Binary EntryPoint: FIXP sessions of both sides, as state machines without sockets or clocks.

`GatewaySessions` and `GatewayConnection` are the exchange's side, `ClientSession` is the client's:
bytes and a time go in, bytes to send and events come out. A `SessionStore` (in memory) or a
`SessionFile` keeps what must survive connections and processes.
"""

from __future__ import annotations

from pregao.entrypoint.client_session import ClientSession
from pregao.entrypoint.client_settings import ClientSettings, Stage
from pregao.entrypoint.credentials import blanked, credentials
from pregao.entrypoint.events import (
    Admitted,
    CancelOrders,
    ConnectionEnded,
    Event,
    Ignored,
    MessageRejected,
    NotAppliedGap,
    Received,
    RetransmissionRefused,
    SessionEstablished,
    SessionNegotiated,
    SessionRefused,
)
from pregao.entrypoint.framing import BadFrame, Frame, FrameReader, framed
from pregao.entrypoint.gateway_connection import GatewayConnection
from pregao.entrypoint.gateway_sessions import (
    GatewaySession,
    GatewaySessions,
    Reader,
    Reading,
    read_business,
)
from pregao.entrypoint.messages import FROM_CLIENT, FROM_EXCHANGE, VERSIONS, Messages, messages
from pregao.entrypoint.rules import Account, GatewayRules
from pregao.entrypoint.session_state import SessionState
from pregao.entrypoint.store import SessionFile, SessionStore, pack_record, unpack_record
from pregao.entrypoint.throttle import Throttle, ThrottleLimit

__all__ = [
    "FROM_CLIENT",
    "FROM_EXCHANGE",
    "VERSIONS",
    "Account",
    "Admitted",
    "BadFrame",
    "CancelOrders",
    "ClientSession",
    "ClientSettings",
    "ConnectionEnded",
    "Event",
    "Frame",
    "FrameReader",
    "GatewayConnection",
    "GatewayRules",
    "GatewaySession",
    "GatewaySessions",
    "Ignored",
    "MessageRejected",
    "Messages",
    "NotAppliedGap",
    "Reader",
    "Reading",
    "Received",
    "RetransmissionRefused",
    "SessionEstablished",
    "SessionFile",
    "SessionNegotiated",
    "SessionRefused",
    "SessionState",
    "SessionStore",
    "Stage",
    "Throttle",
    "ThrottleLimit",
    "blanked",
    "credentials",
    "framed",
    "messages",
    "pack_record",
    "read_business",
    "unpack_record",
]
