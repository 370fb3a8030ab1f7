"""FIX 4.4: tag=value messages, and a small session of either side, without sockets.

`Parser` takes messages out of a stream of bytes, `encode` writes them. `Session` is a machine:
bytes and a time go in, bytes to send and events come out. Nothing of an exchange is in it.
"""

from pregao.fix.message import FixMessage, Parser, encode
from pregao.fix.session import (
    Application,
    LoggedOn,
    LoggedOut,
    Session,
    SessionEvent,
    SessionSettings,
    SessionState,
)

__all__ = [
    "Application",
    "FixMessage",
    "LoggedOn",
    "LoggedOut",
    "Parser",
    "Session",
    "SessionEvent",
    "SessionSettings",
    "SessionState",
    "encode",
]
