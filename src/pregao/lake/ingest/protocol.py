"""What the ingest has to know of a protocol, as a value: how its payloads are read from a capture,
recognised, keyed and decoded, and into which tables.

A *payload* is what a protocol numbers: a UDP datagram, or a message that a reader of the protocol
put together from several datagrams or from a TCP stream. Whatever it is, it comes in blocks of flat
arrays (`PacketBlock`), so that one pipeline serves all: survey, plan, tasks, accounts, commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pregao.capture import CaptureStatistics, Flow, PacketBlock, TruncatedTail, read_blocks
from pregao.umdf.survey import Destination

if TYPE_CHECKING:
    from typing import Protocol as Interface

    from pregao.lake.ingest.payloads import Payloads
    from pregao.lake.store import TableSpec
    from pregao.umdf.sequencing import Place

    class PayloadReader(Interface):
        """The payloads of a range of a capture, in blocks; `capture.BlockReader` is one.

        Every packet of the capture is in one counter of its statistics, and ``udp`` counts the
        payloads: one that is joined from several packets counts once, the others are fragments.
        """

        truncated_tail: TruncatedTail | None

        @property
        def statistics(self) -> CaptureStatistics:
            """What was counted; complete when all blocks are read."""

        @property
        def flows(self) -> Sequence[Flow]:
            """The flows met so far; blocks name them by their place in here."""

        def __enter__(self) -> Self: ...

        def __exit__(self, *error: Any) -> None: ...

        def __iter__(self) -> Iterator[PacketBlock]: ...

    class PayloadDecoder(Interface):
        """Decodes windows of payloads; it may keep decoders and memory between them."""

        def decode(self, payloads: Payloads) -> Walk:
            """Put the rows of the payloads' messages into their tables, and count them."""


UNKNOWN_STREAM = "unknown"
"""The stream of a flow that showed nothing by which to tell it."""

Numbers = npt.NDArray[np.int64]


class Keys(NamedTuple):
    """What the headers of a block's payloads say, a column each."""

    channel: npt.NDArray[np.int16]
    """What counts its own numbers; -1 where there is no sound header."""
    version: npt.NDArray[np.int32]
    """Numbers begin anew with each; a protocol without versions has 0 all over."""
    number: Numbers
    """0 where it has none, as heartbeats do."""
    sending_time_ns: Numbers
    """0 where it has none: then the day is that of the capture time."""
    last: Numbers | None = None
    """The last number of payloads that may have several, or that use one up without having it as
    their key; 0 where there is none. None if a payload has the one number that is its key."""


class Walk(NamedTuple):
    """What became of the payloads of a window."""

    message_count: npt.NDArray[np.int32]
    faulty: npt.NDArray[np.bool_]
    """Was something of it rejected because its walk broke?"""


@dataclass(slots=True)
class Sighting:
    """What a protocol recognised in some payloads of a flow."""

    sound: int = 0
    """Payloads that are in the protocol's form."""
    kinds: Counter[int] = field(default_factory=Counter)
    """Messages by kind: what tells which stream the flow carries."""
    channels: Counter[int] = field(default_factory=Counter)

    def add(self, more: Sighting) -> None:
        """Add what was seen elsewhere."""
        self.sound += more.sound
        self.kinds.update(more.kinds)
        self.channels.update(more.channels)


def destination_of(flow: Flow) -> str:
    """The address and port that a flow is sent to."""
    return str(Destination(flow.dst, flow.dst_port))


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol of captures. Tasks carry its name and look it up in `protocols.PROTOCOLS`."""

    name: str
    account_prefix: str
    """What the names of its tables ``packets``, ``rejects`` and ``gaps`` begin with."""
    look: Callable[[PacketBlock, Sequence[str]], dict[str, Sighting]]
    """What is recognised in a block, by the name of the flow; each flow's name is given."""
    stream_of: Callable[[Mapping[int, int]], str]
    """The stream that explains the kinds of messages seen on a flow."""
    arbitrated: frozenset[str]
    """The streams that several feeds bring, of which the first copy of a key counts."""
    keys: Callable[[PacketBlock, Sequence[str]], Keys]
    """The keys of a block's payloads; each flow's name is given, for it may tell the channel."""
    place_of: Callable[[bytes, str], tuple[int, Place] | None]
    """The channel of a payload of a named flow, and the place that it has or announces; where
    versions are timed, with the second of sending in place of the version."""
    decoder: Callable[[Sequence[str]], PayloadDecoder]
    """Makes what decodes its payloads; the schema files that a user named are given."""
    tables: Callable[[], list[TableSpec]]
    """The tables of its messages, and others that its decoder fills."""
    table_of: Callable[[str], str]
    """The table of a kind of message, by the name that it is counted under."""
    latest: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """By table: what picks the rows that stay, of those that keep only the latest."""
    read: Callable[..., PayloadReader] = read_blocks
    """Opens a source, from a byte to a byte, in blocks of so many bytes."""
    prepare: Callable[[Sequence[str]], None] = lambda _schema_files: None
    """Told the schema files that a user named, in each process, before anything is read."""
    timed_versions: bool = False
    """Versions are spans of time. Numbers go on from one to the next; where they begin anew, also
    within one, it is the sending time that tells a payload from an earlier one of its number."""
    transport: Literal["udp", "tcp"] = "udp"
    """UDP captures can be cut. TCP streams are read by one task, from the capture's beginning; to
    recognise one, its reader must be able to begin anywhere."""
    flow_name: Callable[[Flow], str] = destination_of
    """What a flow is known by in roles and tables."""

    def account_table(self, name: str) -> str:
        """The protocol's own table of packets, rejects or gaps."""
        return f"{self.account_prefix}{name}"
