"""Simulated days for tests of the feed: packets as captured, and messages as columns."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from zlib import crc32

import numpy as np

from pregao.book.update_rows import NULL
from pregao.capture import datagrams, read_packets
from pregao.clock import SECOND
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import SimulationSettings, parse_moment, parse_reset
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.book_updates import BOOK_TEMPLATES, snapshot_columns, update_columns
from pregao.feed.messages import (
    BookMessages,
    IncrementalColumns,
    ResetColumns,
    key_columns,
    times_of,
)
from pregao.feed.packet_gaps import MANY, PacketGap, PacketGapColumns
from pregao.feed.replay.day import ChannelDay, DayFollower
from pregao.feed.replay.snapshots import (
    LoopRows,
    SnapshotOrders,
    Snapshots,
    complete_loops,
    whole_loops,
)
from pregao.feed.replay.snapshots import snapshot_orders as orders_of
from pregao.feed.replay.statistics import OtherMessages, PhaseChanges
from pregao.feed.snapshot_assembly import ends_version
from pregao.sbe.model import snake_case
from pregao.umdf import templates
from pregao.umdf.arbitration import Arbiter, PacketDelivered, PacketsLost
from pregao.umdf.events import EventNumbers
from pregao.umdf.gaps import GapItem
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import PacketKey, version_distance

CHANNEL = 51
_DECODER = PacketDecoder()
LOSSY = FaultRates(loss=0.03, reorder=0.05, duplicate=0.05)


def simulated(out, version, *, lossy=(), resets=(), late_join=None, **changes):
    """Simulate a small day of equities; the truth about its books."""
    faults = dict.fromkeys(("A", "B", "snapshot", "definition"), FaultRates())
    faults |= dict.fromkeys(lossy, LOSSY)
    chosen = {
        "duration_ns": 4 * SECOND,
        "rate": 250.0,
        "instruments": 10,
        "truth_books": 6,
    } | changes
    chosen["faults"] = faults
    chosen["resets"] = tuple(parse_reset(text) for text in resets)
    if late_join:
        chosen["late_join"] = parse_moment("--late-join", late_join)
    Simulation(
        SimulationSettings(profile="equities", out=out, schema_version=version, **chosen)
    ).run()
    truth = (out / "truth/books.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in truth]


@dataclass(frozen=True)
class Captured:
    """A packet of a capture."""

    time_ns: int
    order: int
    stream: str
    packet: object


def packets_of(folder, channel=CHANNEL):
    """The packets of a channel's captures, decoded, in the order of time."""
    merged = []
    for name in ("Incremental_A", "Incremental_B", "Snapshot"):
        for datagram in datagrams(read_packets(folder / f"{channel:03d}_{name}.pcap")):
            packet = _DECODER.decode(datagram.payload)
            merged.append(Captured(datagram.time_ns, len(merged), name, packet))
    return sorted(merged, key=lambda each: (each.time_ns, each.order))


class Lines:
    """A follower after an arbiter, as in a channel: packets of any feed in arrival order."""

    def __init__(self, follower, lost, **settings):
        self.follower = follower
        self._lost = lost
        self._arbiter = Arbiter(**settings)

    def receive(self, feed, packet, time_ns):
        header = packet.header
        packet_key = PacketKey(header.sequence_version, header.sequence_number)
        if header.sequenced:
            self._take(
                self._arbiter.accept(feed, packet_key, time_ns, packet, resets=ends_version(packet))
            )
            return
        for decoded in packet.messages:
            following = PacketKey(header.sequence_version, decoded.values["nextSeqNo"])
            self.follower.begin(following)
            self._take(self._arbiter.heartbeat(*following, time_ns))

    def expire(self, now_ns):
        self._take(self._arbiter.expire(now_ns))

    def _take(self, outcomes):
        for outcome in outcomes:
            if isinstance(outcome, PacketDelivered):
                self.follower.deliver(outcome.item)
            elif isinstance(outcome, PacketsLost):
                self._lost(outcome)
                if outcome.last is not None:
                    self.follower.lose(PacketKey(outcome.sequence_version, outcome.last))


def arbitrated(captured):
    """Packets with only the first copy of each incremental one, in sequence; others as received.

    A packet counts from its first arrival, but never before one that precedes it. Packets of a
    snapshot loop that arrive after the next one has begun are left out: a reader of a complete day
    can still use them, a follower of the channel cannot.
    """
    first = {}
    for each in captured:
        header = each.packet.header
        if each.stream != "Snapshot" and header.sequenced:
            first.setdefault(PacketKey(header.sequence_version, header.sequence_number), each)
    base = min((packet_key[0] for packet_key in first), default=1)
    kept, latest = [], 0
    for packet_key in sorted(first, key=lambda packet_key: packet_key.serial(base)):
        latest = max(latest, first[packet_key].time_ns)
        kept.append(Captured(latest, len(kept), "Incremental_A", first[packet_key].packet))
    loop = 0
    for each in (each for each in captured if each.stream == "Snapshot"):
        if each.packet.header.sequence_version >= loop:
            loop = each.packet.header.sequence_version
            kept.append(each)
    return sorted(kept, key=lambda each: (each.time_ns, each.stream == "Snapshot", each.order))


class ListColumns:
    """Messages as lists of values: the plainest columns that a follower can be given."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    @property
    def names(self):
        return sorted({name for row in self.rows for name in row})

    def numbers(self, name, null=NULL):
        values = [_number(row.get(name)) for row in self.rows]
        return np.array([null if value is None else value for value in values], np.int64)

    def codes(self, name, known, other):
        return np.array([known.get(row.get(name), other) for row in self.rows], np.uint8)

    def texts(self, name):
        return [row.get(name) for row in self.rows]

    def take(self, chosen):
        return ListColumns([self.rows[at] for at in chosen.tolist()])

    def followed_by(self, more):
        return ListColumns([*self.rows, *more.rows])

    def labels(self, name):
        texts = self.texts(name)
        return np.array([0 if each is None else crc32(each.encode()) for each in texts], np.int64)

    def nulls(self, name):
        return np.array([row.get(name) is None for row in self.rows], np.bool_)

    def unlike(self, name, other):
        pairs = zip(self.rows, other.rows, strict=True)
        return np.array([one.get(name) != two.get(name) for one, two in pairs], np.bool_)

    def value(self, name, at):
        return self.rows[at].get(name)


def _number(value):
    if isinstance(value, Decimal):
        return int(value.scaleb(-value.as_tuple().exponent))
    if hasattr(value, "toordinal"):
        return value.toordinal() - 719_163
    return value if isinstance(value, int) else None


def _column(name):
    found = snake_case(name)
    times = ("mDInsertTimestamp", "mDEntryTimestamp", "transactTime")
    return f"{found}_ns" if name in times else found


def rows_of(captured, *, incremental):
    """By template, the messages of a stream with their keys."""
    events = EventNumbers()
    found = {}
    for each in captured:
        header = each.packet.header
        if incremental != (each.stream != "Snapshot") or not header.sequenced:
            continue
        packet_key = PacketKey(header.sequence_version, header.sequence_number)
        for outcome in each.packet.outcomes:
            values = outcome.decoded.values
            row = {_column(name): value for name, value in values.items()}
            if "noMDEntries" in values:
                row["no_md_entries"] = [
                    {_column(name): value for name, value in entry.items()}
                    for entry in values["noMDEntries"]
                ]
            row |= {
                "sequence_version": header.sequence_version,
                "sequence_number": header.sequence_number,
                "index_in_packet": outcome.frame.index_in_packet,
                "sending_time_ns": header.sending_time_ns,
                "capture_time_ns": each.time_ns,
                "schema_version": outcome.frame.version,
                "event": None,
            }
            if incremental:
                row["event"] = events.number(
                    packet_key, outcome.frame.index_in_packet, outcome.frame.template_id,
                    values.get("matchEventIndicator"),
                )  # fmt: skip
            found.setdefault(outcome.frame.template_id, []).append(row)
    return found


@dataclass
class Ticks:
    """Takes what a bulk follower gives: the ticks of all instruments, and books by row."""

    depth: int
    checkpoint_rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    found: list = field(default_factory=list)
    finals: dict = field(default_factory=dict)

    def begin_window(self, sequence, rows, counts, statistics, loaded, base_row, last):
        item = rows.item
        self.message_serials = sequence.message_serial[item]
        self.security = sequence.securities[sequence.rank[item]]
        ends = np.flatnonzero(np.append(self.security[1:] != self.security[:-1], True))
        self.checkpoint_rows = ends[: len(item)] if len(item) else ends[:0]

    def add_ticks(self, ticks):
        for at in range(len(ticks)):
            sides = []
            for side in range(2):
                levels = [
                    (int(price), int(size), int(orders))
                    for price, size, orders in zip(
                        ticks.price[side, at], ticks.size[side, at], ticks.orders[side, at],
                        strict=True,
                    )
                    if orders
                ]  # fmt: skip
                sides.append(levels)
            serial = int(self.message_serials[int(ticks.row[at])])
            state = int(ticks.state[at])
            self.found.append((int(ticks.instrument[at]), serial, state, *sides))

    def end_window(self, books):
        for row in self.checkpoint_rows.tolist():
            self.finals[int(self.security[row])] = books[row]

    def discard(self):
        pass


def gaps_of(captured, base):
    """Packets missing from the incremental stream, by sequence number."""
    numbers, ended = {}, set()
    for each in captured:
        header = each.packet.header
        if each.stream != "Snapshot" and header.sequenced:
            numbers.setdefault(header.sequence_version, []).append(header.sequence_number)
            if any(found.message.id == templates.SEQUENCE_RESET for found in each.packet.messages):
                ended.add(header.sequence_version)
    gaps = []
    versions = sorted(numbers, key=lambda version: version_distance(base, version))
    for version in versions:
        last = 0
        for number in sorted(numbers[version]):
            if number > last + 1:
                gaps.append(PacketGap(PacketKey(version, last + 1).serial(base), number - last - 1))
            last = number
        if version not in ended and version != versions[-1]:
            gaps.append(PacketGap(PacketKey(version, last + 1).serial(base), MANY))
    return PacketGapColumns.from_gaps(gaps)


def bulk(captured, *, from_the_start, by_position, depth=5):
    """Follow arbitrated packets in bulk; the follower and its ticks."""
    incremental = rows_of(captured, incremental=True)
    looped = rows_of(captured, incremental=False)
    first = {}
    for each in captured:
        header = each.packet.header
        if each.stream != "Snapshot" and header.sequenced:
            first.setdefault(header.sequence_version, header.sending_time_ns)
    versions = list(first)
    base = next(v for v in versions if all(version_distance(v, w) >= 0 for w in versions))
    spans = tuple(sorted(first.items(), key=lambda item: version_distance(base, item[0])))
    headers = ListColumns(looped.get(templates.SNAPSHOT_HEADER, []))
    headers = headers.take(LoopRows.from_messages(headers).order())
    gaps = gaps_of(captured, base)
    loops = complete_loops(whole_loops(headers, spans, base), gaps)
    day = ChannelDay(base, from_the_start, by_position, spans, gaps, loops)

    statistics = {
        template: ListColumns(rows)
        for template, rows in looped.items()
        if template not in (templates.SNAPSHOT_HEADER, templates.SNAPSHOT_ORDERS)
        and "security_id" in rows[0]
    }
    statistics = {
        key: rows.take(LoopRows.from_messages(rows).order()) for key, rows in statistics.items()
    }
    others = OtherMessages(
        {
            template: ListColumns(rows)
            for template, rows in incremental.items()
            if template not in BOOK_TEMPLATES and "rpt_seq" in rows[0] and "security_id" in rows[0]
        },
        statistics,
        {template: str(template) for template in {*incremental, *looped, 15, 24, 25, 27, 56}},
    )
    changing = []
    for template in BOOK_TEMPLATES:
        if template in incremental:
            rows = ListColumns(incremental[template])
            masks = templates.implied_masks(rows.numbers("schema_version"))
            item = GapItem.EMPTIED if template == templates.EMPTY_BOOK else GapItem.MESSAGE
            changing.append(
                BookMessages(
                    key_columns(rows, base), times_of(rows), update_columns(template, rows, masks),
                    item,
                )
            )  # fmt: skip
    keys = [key_columns(rows, base) for rows in others.incremental.values()]
    resets = [ListColumns(incremental.get(templates.CHANNEL_RESET, []))]
    ticks = Ticks(depth)
    empty = np.empty(0, np.int64)
    follower = DayFollower(
        day, others, _snapshots(looped, headers, others, day), depth,
        lambda _: (PhaseChanges(empty, empty, empty, np.empty(0, np.uint8)), ticks),
    )  # fmt: skip
    parts = [each for each in resets if len(each)]
    follower.window(
        IncrementalColumns.from_messages(changing, keys),
        ResetColumns.from_messages(parts, base),
        (0, 1 << 40),
        last=True,
    )
    return follower, ticks


def _snapshots(looped, headers, others, day):
    if not len(headers):
        return None
    rows = looped.get(templates.SNAPSHOT_ORDERS, [])
    orders = SnapshotOrders.none()
    if rows:
        counts = np.array([len(row["no_md_entries"]) for row in rows], np.int64)
        entries = ListColumns([entry for row in rows for entry in row["no_md_entries"]])
        versions = np.repeat([row["schema_version"] for row in rows], counts)
        orders = orders_of(
            LoopRows.from_messages(headers), LoopRows.from_messages(ListColumns(rows)),
            np.cumsum(counts) - counts, counts,
            snapshot_columns(entries, templates.implied_masks(versions)),
            by_position=day.by_position,
        )  # fmt: skip
    return Snapshots.from_messages(headers, orders, others.loop_rows(), day.base, day.spans)


def tally(values):
    """Return the number of occurrences of each value."""
    return dict(Counter(values))
