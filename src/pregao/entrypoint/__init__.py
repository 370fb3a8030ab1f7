"""Binary EntryPoint: FIXP sessions of both sides, as state machines, and a client on asyncio.

`GatewaySessions` and `GatewayConnection` are the exchange's side, `ClientSession` is the client's:
bytes and a time go in, bytes to send and events come out. A `SessionStore` (in memory) or a
`SessionFile` keeps what must survive connections and processes. `Client` holds a session over real
connections. Messages in captures are found by `pregao.entrypoint.captured`.
"""

from __future__ import annotations

from pregao.entrypoint.client import (
    Client,
    NotAppliedError,
    Reconnecting,
    SessionRefusedError,
)
from pregao.entrypoint.client_session import ClientSession
from pregao.entrypoint.client_settings import ClientSettings, Stage
from pregao.entrypoint.credentials import blanked, credentials
from pregao.entrypoint.events import (
    Admitted,
    CancelOrders,
    ConnectionEnded,
    ConnectionFailed,
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
from pregao.entrypoint.order_tracking import Order, OrderTracker
from pregao.entrypoint.requests import Entering, Requests
from pregao.entrypoint.rules import Account, GatewayRules
from pregao.entrypoint.session_state import SessionState
from pregao.entrypoint.store import SessionFile, SessionStore, pack_record, unpack_record
from pregao.entrypoint.subscription import Subscription
from pregao.entrypoint.throttle import Throttle, ThrottleLimit

__all__ = [
    "FROM_CLIENT",
    "FROM_EXCHANGE",
    "VERSIONS",
    "Account",
    "Admitted",
    "BadFrame",
    "CancelOrders",
    "Client",
    "ClientSession",
    "ClientSettings",
    "ConnectionEnded",
    "ConnectionFailed",
    "Entering",
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
    "NotAppliedError",
    "NotAppliedGap",
    "Order",
    "OrderTracker",
    "Reader",
    "Reading",
    "Received",
    "Reconnecting",
    "Requests",
    "RetransmissionRefused",
    "SessionEstablished",
    "SessionFile",
    "SessionNegotiated",
    "SessionRefused",
    "SessionRefusedError",
    "SessionState",
    "SessionStore",
    "Stage",
    "Subscription",
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
