"""Whose session a client holds and how; and how far a connection of it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pregao.entrypoint import cancel_on_disconnect as cod
from pregao.entrypoint.framing import MAX_MESSAGE


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Whose session it is, and how it wants to be held."""

    session_id: int
    firm: int
    access_key: str = field(repr=False)
    version: int = 2
    """The schema version to speak; 2 is 8.0.0."""
    keep_alive_ms: int = 1000
    cancel_on_disconnect: str = cod.NEVER
    window_ms: int = 0
    silent_intervals: int = 2
    """After how many intervals of the gateway its silence ends the connection."""
    retransmission_attempts: int = 10
    """After how many requests in a row without effect missing messages are given up."""
    max_message: int = MAX_MESSAGE
    """The longest message that is read, up to 16,384 bytes (§4.4); the schema says 2,048."""
    keep_reports: bool = False
    """Keep what the exchange sends in the store too, so that whoever starts again knows it."""
    app_name: str = "pregao"
    app_version: str = ""
    ip: str = ""


class Stage(Enum):
    """How far a connection is."""

    UNCONNECTED = "unconnected"
    NEGOTIATING = "negotiating"
    ESTABLISHING = "establishing"
    ESTABLISHED = "established"
    ENDED = "ended"
