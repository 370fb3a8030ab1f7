"""Binary EntryPoint: FIXP sessions for both sides as state machines, and an asyncio client.

`GatewaySessions` and `GatewayConnection` implement the exchange side, `ClientSession` the client
side: they accept bytes and a time, and return bytes to send and events. A `SessionStore` (in
memory) or a `SessionFile` keeps the state that must survive connections and processes. `Client`
runs a session over TCP connections. `pregao.entrypoint.captured.messages` finds messages in
captures.

Public names are imported on first use, so that reading captures does not load the session code.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# These two functions share a name with their module, so they cannot be imported lazily.
from pregao.entrypoint.framing import blanked, credentials
from pregao.entrypoint.messages import (
    FROM_CLIENT,
    FROM_EXCHANGE,
    VERSIONS,
    EntryPointCodec,
    messages,
)

if TYPE_CHECKING:
    from pregao.entrypoint.client import Client as Client
    from pregao.entrypoint.client import ClientTimeoutError as ClientTimeoutError
    from pregao.entrypoint.client import ReconnectPolicy as ReconnectPolicy
    from pregao.entrypoint.client import SessionRefusedError as SessionRefusedError
    from pregao.entrypoint.client_session import ClientSession as ClientSession
    from pregao.entrypoint.events import CancelOrders as CancelOrders
    from pregao.entrypoint.events import ClientSubscription as ClientSubscription
    from pregao.entrypoint.events import ConnectionEnded as ConnectionEnded
    from pregao.entrypoint.events import ConnectionFailed as ConnectionFailed
    from pregao.entrypoint.events import DuplicateIgnored as DuplicateIgnored
    from pregao.entrypoint.events import MessageReceived as MessageReceived
    from pregao.entrypoint.events import MessageRejected as MessageRejected
    from pregao.entrypoint.events import NotAppliedGap as NotAppliedGap
    from pregao.entrypoint.events import RequestReceived as RequestReceived
    from pregao.entrypoint.events import RetransmissionRefused as RetransmissionRefused
    from pregao.entrypoint.events import SequenceLowered as SequenceLowered
    from pregao.entrypoint.events import SessionEstablished as SessionEstablished
    from pregao.entrypoint.events import SessionEvent as SessionEvent
    from pregao.entrypoint.events import SessionNegotiated as SessionNegotiated
    from pregao.entrypoint.events import SessionRefused as SessionRefused
    from pregao.entrypoint.framing import BadFrame as BadFrame
    from pregao.entrypoint.framing import FrameReader as FrameReader
    from pregao.entrypoint.framing import StreamFrame as StreamFrame
    from pregao.entrypoint.framing import framed as framed
    from pregao.entrypoint.gateway_connection import GatewayConnection as GatewayConnection
    from pregao.entrypoint.gateway_sessions import BusinessMessage as BusinessMessage
    from pregao.entrypoint.gateway_sessions import GatewaySession as GatewaySession
    from pregao.entrypoint.gateway_sessions import GatewaySessions as GatewaySessions
    from pregao.entrypoint.gateway_sessions import Reader as Reader
    from pregao.entrypoint.gateway_sessions import read_business as read_business
    from pregao.entrypoint.order_tracker import ClientOrder as ClientOrder
    from pregao.entrypoint.order_tracker import NotAppliedError as NotAppliedError
    from pregao.entrypoint.order_tracker import OrderTracker as OrderTracker
    from pregao.entrypoint.request_builder import RequestBuilder as RequestBuilder
    from pregao.entrypoint.request_builder import RequestDefaults as RequestDefaults
    from pregao.entrypoint.session_settings import ClientSettings as ClientSettings
    from pregao.entrypoint.session_settings import ConnectionStage as ConnectionStage
    from pregao.entrypoint.session_settings import GatewaySettings as GatewaySettings
    from pregao.entrypoint.session_settings import SessionAccount as SessionAccount
    from pregao.entrypoint.session_settings import Throttle as Throttle
    from pregao.entrypoint.session_settings import ThrottleLimit as ThrottleLimit
    from pregao.entrypoint.session_state import SessionState as SessionState
    from pregao.entrypoint.session_store import SessionFile as SessionFile
    from pregao.entrypoint.session_store import SessionStore as SessionStore
    from pregao.entrypoint.session_store import pack_record as pack_record
    from pregao.entrypoint.session_store import unpack_record as unpack_record

__all__ = [
    "FROM_CLIENT",
    "FROM_EXCHANGE",
    "VERSIONS",
    "BadFrame",
    "BusinessMessage",
    "CancelOrders",
    "Client",
    "ClientOrder",
    "ClientSession",
    "ClientSettings",
    "ClientSubscription",
    "ClientTimeoutError",
    "ConnectionEnded",
    "ConnectionFailed",
    "ConnectionStage",
    "DuplicateIgnored",
    "EntryPointCodec",
    "FrameReader",
    "GatewayConnection",
    "GatewaySession",
    "GatewaySessions",
    "GatewaySettings",
    "MessageReceived",
    "MessageRejected",
    "NotAppliedError",
    "NotAppliedGap",
    "OrderTracker",
    "Reader",
    "ReconnectPolicy",
    "RequestBuilder",
    "RequestDefaults",
    "RequestReceived",
    "RetransmissionRefused",
    "SequenceLowered",
    "SessionAccount",
    "SessionEstablished",
    "SessionEvent",
    "SessionFile",
    "SessionNegotiated",
    "SessionRefused",
    "SessionRefusedError",
    "SessionState",
    "SessionStore",
    "StreamFrame",
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

_HOMES = {
    "client": ["Client", "ClientTimeoutError", "ReconnectPolicy", "SessionRefusedError"],
    "client_session": ["ClientSession"],
    "events": [
        "CancelOrders",
        "ClientSubscription",
        "ConnectionEnded",
        "ConnectionFailed",
        "DuplicateIgnored",
        "MessageReceived",
        "MessageRejected",
        "NotAppliedGap",
        "RequestReceived",
        "RetransmissionRefused",
        "SequenceLowered",
        "SessionEstablished",
        "SessionEvent",
        "SessionNegotiated",
        "SessionRefused",
    ],
    "framing": ["BadFrame", "FrameReader", "StreamFrame", "blanked", "credentials", "framed"],
    "gateway_connection": ["GatewayConnection"],
    "gateway_sessions": [
        "BusinessMessage",
        "GatewaySession",
        "GatewaySessions",
        "Reader",
        "read_business",
    ],
    "messages": ["EntryPointCodec", "FROM_CLIENT", "FROM_EXCHANGE", "VERSIONS", "messages"],
    "order_tracker": ["ClientOrder", "NotAppliedError", "OrderTracker"],
    "request_builder": ["RequestBuilder", "RequestDefaults"],
    "session_settings": [
        "ClientSettings",
        "ConnectionStage",
        "GatewaySettings",
        "SessionAccount",
        "Throttle",
        "ThrottleLimit",
    ],
    "session_state": ["SessionState"],
    "session_store": ["SessionFile", "SessionStore", "pack_record", "unpack_record"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
