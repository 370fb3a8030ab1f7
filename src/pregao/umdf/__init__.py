"""Binary UMDF: the rules of the feed, without books, sockets or files.

`packets` parses packets, `templates` names template ids and flags, `keys` the columns of a
message's key. The rules are small state machines: `sequencing` (expected, missing and late
packets), `arbitration` (one sequence from several feeds), `events` (messages that belong together),
`streams` (the stream of a flow), `loops`, `recovery` and `gaps` (snapshots, and the gaps that they
heal), `phases` (trading states).

Bulk processing is in separate modules, because it needs numba and Arrow: `bulk` (walk and decode),
`tables` (columns of templates), `key_columns`, `survey`, and the columnar form of each rule:
`arbitration_columns`, `event_columns`, `gap_columns`.
"""

from pregao.umdf.arbitration import Arbiter, Delivered, Duplicate, FirstArrivals, Lost, TooLate
from pregao.umdf.events import EventNumbers, ends_event, event_number
from pregao.umdf.gaps import InstrumentCount, Item, Step
from pregao.umdf.loops import DefinitionLoop, InstrumentSnapshot, SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import (
    DecodedPacket,
    Frame,
    PacketDecoder,
    PacketHeader,
    decode_header,
    encode_packet,
    frames,
)
from pregao.umdf.phases import GroupKey, Phases, StatisticsReset, Status, StatusChange, TradingEvent
from pregao.umdf.recovery import Incremental, is_usable, snapshot_place
from pregao.umdf.sequencing import (
    LAST_SEQUENCE_VERSION,
    Arrival,
    Place,
    StreamSequence,
    Verdict,
    covers,
    place_of_serial,
    precedes,
    serial_of,
    version_distance,
)
from pregao.umdf.streams import Stream, StreamEvidence
from pregao.umdf.templates import flag, implied_mask, implied_masks, template_id

__all__ = [
    "LAST_SEQUENCE_VERSION",
    "Arbiter",
    "Arrival",
    "DecodedPacket",
    "DefinitionLoop",
    "Delivered",
    "Duplicate",
    "EventNumbers",
    "FirstArrivals",
    "Frame",
    "GroupKey",
    "Incremental",
    "InstrumentCount",
    "InstrumentSnapshot",
    "Item",
    "Lost",
    "PacketDecoder",
    "PacketHeader",
    "Phases",
    "Place",
    "SnapshotHeader",
    "SnapshotLoop",
    "StatisticsReset",
    "Status",
    "StatusChange",
    "Step",
    "Stream",
    "StreamEvidence",
    "StreamSequence",
    "TooLate",
    "TradingEvent",
    "Verdict",
    "covers",
    "decode_header",
    "encode_packet",
    "ends_event",
    "event_number",
    "flag",
    "frames",
    "implied_mask",
    "implied_masks",
    "is_usable",
    "place_of_serial",
    "precedes",
    "serial_of",
    "snapshot_place",
    "template_id",
    "version_distance",
]
