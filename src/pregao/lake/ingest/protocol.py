"""Interface of a protocol for the ingest: detection, keys and decoder of payloads, and tables.

A *payload* is the unit that a protocol numbers: a UDP datagram, or a message that the protocol's
reader assembled from several datagrams or a TCP stream. Payloads come in blocks of flat arrays
(`PacketBlock`), so that one pipeline serves all: survey, plan, tasks, accounts, commit.

A user's schema files are sorted into SBE schemas and FAST templates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.capture.block_reader import read_blocks
from pregao.capture.blocks import PacketBlock
from pregao.capture.layers import Flow
from pregao.capture.reader import TruncatedTail
from pregao.capture.statistics import CaptureStatistics
from pregao.umdf.survey.lines import Destination

if TYPE_CHECKING:
    from typing import Protocol as Interface

    from pregao.lake.ingest.sbe_rows import Payloads
    from pregao.lake.storage.commit_unit import TableSpec
    from pregao.umdf.sequencing import PacketKey

if TYPE_CHECKING:

    class PayloadReader(Interface):
        """Reads the payloads of a range of a capture in blocks, like `capture.BlockReader`.

        Every packet of the capture is in one counter of its statistics. ``udp`` counts payloads:
        one that is assembled from several packets counts once, the others are fragments.
        """

        truncated_tail: TruncatedTail | None

        @property
        def statistics(self) -> CaptureStatistics:
            """Counters; complete after all blocks are read."""

        @property
        def flows(self) -> Sequence[Flow]:
            """Flows found so far; blocks refer to them by index."""

        def __enter__(self) -> Self: ...

        def __exit__(self, *error: Any) -> None: ...

        def __iter__(self) -> Iterator[PacketBlock]: ...

    class PayloadDecoder(Interface):
        """Decodes windows of payloads; may keep decoders and memory between windows."""

        def decode(self, payloads: Payloads) -> WalkResult:
            """Add the payloads' messages to their tables and count them."""


UNKNOWN_STREAM = "unknown"
"""Stream of a flow without evidence of its stream."""

_HEAD = 1 << 16
_ROOT = re.compile(rb"<(?:[\w.-]+:)?([A-Za-z][\w.-]*)[\s/>]")


class PayloadKeys(NamedTuple):
    """Columns from the headers of a block's payloads."""

    channel: npt.NDArray[np.int16]
    """Channel, with its own sequence; -1 if the header is invalid."""
    version: npt.NDArray[np.int32]
    """Sequence version, with which numbers restart; always 0 in protocols without versions."""
    number: Int64Array
    """Sequence number; 0 if the payload has none, like heartbeats."""
    sending_time_ns: Int64Array
    """Sending time; 0 if the payload has none: then its day is that of the capture time."""
    last: Int64Array | None = None
    """Last sequence number of payloads that have several, or that use one which is not their key;
    0 if there is none. None if every payload has exactly one number, its key."""


class WalkResult(NamedTuple):
    """Result of walking the payloads of a window."""

    message_count: npt.NDArray[np.int32]
    faulty: npt.NDArray[np.bool_]
    """Whether a framing error ended the walk, so that part of the payload was rejected."""


@dataclass(slots=True)
class ProtocolEvidence:
    """Evidence of a protocol in sampled payloads of a flow."""

    sound: int = 0
    """Payloads that are well-formed in the protocol."""
    kinds: Counter[int] = field(default_factory=Counter)
    """Messages by kind, from which the flow's stream is detected."""
    channels: Counter[int] = field(default_factory=Counter)

    def add(self, more: ProtocolEvidence) -> None:
        """Add evidence from other payloads."""
        self.sound += more.sound
        self.kinds.update(more.kinds)
        self.channels.update(more.channels)


def destination_of(flow: Flow) -> str:
    """Return the destination address and port of a flow."""
    return str(Destination(flow.dst, flow.dst_port))


@dataclass(frozen=True, slots=True)
class IngestProtocol:
    """A protocol of captures. Tasks carry its name and look it up in `registry.PROTOCOLS`."""

    name: str
    account_prefix: str
    """Prefix of its tables ``packets``, ``rejects`` and ``gaps``."""
    look: Callable[[PacketBlock, Sequence[str]], dict[str, ProtocolEvidence]]
    """Returns the evidence of the protocol in a block by flow, given the names of flows."""
    stream_of: Callable[[Mapping[int, int]], str]
    """Returns the stream to which the kinds of messages on a flow belong."""
    arbitrated: frozenset[str]
    """Streams sent on several feeds, of which the first packet with a key is decoded."""
    keys: Callable[[PacketBlock, Sequence[str]], PayloadKeys]
    """Returns the keys of a block's payloads, given flow names, which may imply channels."""
    packet_key: Callable[[bytes, str], tuple[int, PacketKey] | None]
    """Returns the channel of a payload of a named flow, and the packet key that it has or
    announces; with timed versions, the second of sending replaces the version."""
    decoder: Callable[[Sequence[str]], PayloadDecoder]
    """Returns a decoder of its payloads, given the user's schema files."""
    tables: Callable[[], list[TableSpec]]
    """Returns the specs of all tables that its decoder fills."""
    table_of: Callable[[str], str]
    """Returns the table of a kind of message, given the name under which it is counted."""
    latest: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Functions that select the rows to keep, by table, for tables that keep only the latest."""
    read: Callable[..., PayloadReader] = read_blocks
    """Opens a range of a source, given begin, end and block size in bytes."""
    prepare: Callable[[Sequence[str]], None] = lambda _schema_files: None
    """Called in each process with the user's schema files, before anything is read."""
    timed_versions: bool = False
    """Whether versions are periods of time. Numbers then continue from one version to the next;
    after a restart, even within a version or a second, the sending time distinguishes equal
    numbers."""
    transport: Literal["udp", "tcp"] = "udp"
    """UDP captures can be split. TCP streams are read by one task from the start of the capture; to
    sample one, its reader must be able to start at any position."""
    flow_name: Callable[[Flow], str] = destination_of
    """Returns the name of a flow in roles and tables."""

    def account_table(self, name: str) -> str:
        """Return the protocol's table ``packets``, ``rejects`` or ``gaps``."""
        return f"{self.account_prefix}{name}"


def fast_files(named: Sequence[str]) -> list[str]:
    """Return the files with FAST templates."""
    return [name for name in named if _is_fast(name)]


def sbe_files(named: Sequence[str]) -> list[str]:
    """Return the other files; invalid ones are reported when they are loaded."""
    return [name for name in named if not _is_fast(name)]


def _is_fast(name: str) -> bool:
    try:
        with Path(name).open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    root = _ROOT.search(re.sub(rb"<!--.*?-->", b"", head, flags=re.DOTALL))
    return root is not None and root.group(1) in (b"templates", b"template")
