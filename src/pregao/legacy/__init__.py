"""UMDF FIX/FAST, B3's feed before Binary UMDF: from datagrams to messages in sequence.

`read_chunks` splits a datagram into chunks, `Assembler` joins chunks into messages, `write_chunks`
is the reverse. `MessageReader` decodes a message with `pregao.fast` and the bundled templates, or
those of another file. `IncrementalLine` and `LoopLine` are the streams of a channel, sans-I/O: they
merge feeds and detect gaps and loops. `RecoveryClient` and `RecoveryServer` are the two sides of
TCP recovery, and `GapFiller` requests the messages that a line is missing. `pregao.feed` applies
the messages to books.
"""

from pregao.legacy.assembly import Assembler, Message
from pregao.legacy.chunks import HEADER_SIZE, Chunk, read_chunks, write_chunks
from pregao.legacy.lines import (
    RECOVERY,
    Began,
    IncrementalLine,
    LineCounters,
    LineEvent,
    Missing,
    Told,
)
from pregao.legacy.loops import InLoop, LoopEnded, LoopLine
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType, message_type
from pregao.legacy.recovery import (
    MOST_ASKING_NS,
    Ended,
    Finished,
    GapFiller,
    MessageStore,
    Recovered,
    RecoveryClient,
    RecoveryEvent,
    RecoveryServer,
)
from pregao.legacy.recovery_messages import MOST_PER_REQUEST, Fault, Wanted
from pregao.legacy.streams import (
    DEAD_AFTER_NS,
    HEARTBEAT_NS,
    MEGABOLSA,
    PLATFORMS,
    PUMA,
    Platform,
    Stream,
    stream_of,
)
from pregao.legacy.times import (
    date_digits,
    moment_ns,
    time_digits,
    timestamp_digits,
    timestamp_ns,
)

__all__ = [
    "DEAD_AFTER_NS",
    "HEADER_SIZE",
    "HEARTBEAT_NS",
    "MEGABOLSA",
    "MOST_ASKING_NS",
    "MOST_PER_REQUEST",
    "PLATFORMS",
    "PUMA",
    "RECOVERY",
    "Assembler",
    "Began",
    "Chunk",
    "Ended",
    "Fault",
    "Finished",
    "GapFiller",
    "InLoop",
    "IncrementalLine",
    "LegacyMessage",
    "LineCounters",
    "LineEvent",
    "LoopEnded",
    "LoopLine",
    "Message",
    "MessageReader",
    "MessageStore",
    "Missing",
    "MsgType",
    "Platform",
    "Recovered",
    "RecoveryClient",
    "RecoveryEvent",
    "RecoveryServer",
    "Stream",
    "Told",
    "Wanted",
    "date_digits",
    "message_type",
    "moment_ns",
    "read_chunks",
    "stream_of",
    "time_digits",
    "timestamp_digits",
    "timestamp_ns",
    "write_chunks",
]
