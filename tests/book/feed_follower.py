"""A feed handler in miniature, for tests: captures of a channel in, books out, over bad lines.

It does nothing of its own: packets go through the arbiter, snapshots through the loop, messages
through joining and gaps, and the books are the classes of the book folder.
"""

from decimal import Decimal

from pregao.book.faults import State
from pregao.book.position import PositionBook
from pregao.book.priority import PriorityBook
from pregao.book.updates import (
    BookEmptied,
    ChannelReset,
    Interrupted,
    MessageKey,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    Side,
    SideCleared,
    SnapshotBegun,
    SnapshotEnded,
    SnapshotOrder,
    TopRemoved,
)
from pregao.capture import datagrams, read_packets
from pregao.umdf.arbitration import Arbiter, Delivered, Lost
from pregao.umdf.gaps import InstrumentGaps, Step
from pregao.umdf.loops import SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.recovery import Joined, Joining, incremental_of
from pregao.umdf.sequencing import Place
from pregao.umdf.templates import CHANNEL_RESET, EMPTY_BOOK

IMPLIED, RECOVERY = 1 << 4, 1 << 5
SIDES = {"BID": Side.BID, "OFFER": Side.ASK}
RESET, HEARTBEAT, HEADER, PHASE, ORDERS = 1, 2, 30, 10, 71
_DECODER = PacketDecoder()


def mantissa(price):
    return None if price is None else int(price * 10**4)


def update_of(message):
    """The book update of a message, or None if it changes no order."""
    values = message.item.values
    key = MessageKey(*message.place, message.index_in_packet)
    if message.template_id not in (50, 51, 52):
        return None
    side = SIDES[values["mDEntryType"]]
    rpt_seq = values["rptSeq"]
    position = values.get("mDEntryPositionNo")
    if message.template_id == 52:
        if values["mDUpdateAction"] == "DELETE_FROM":
            return TopRemoved(key, side, position, rpt_seq)
        return SideCleared(key, side, rpt_seq)
    order_id, price = values["secondaryOrderID"], mantissa(values.get("mDEntryPx"))
    if message.template_id == 51:
        size = values["mDEntrySize"]
        return OrderDeleted(key, side, order_id, price, size, position, rpt_seq)
    flags = values["matchEventIndicator"]
    about = {
        "position": position,
        "firm": values["enteringFirm"],
        "insert_time_ns": values["mDInsertTimestamp"],
        # The bit had another meaning while books were kept by position.
        "implied": bool(flags & IMPLIED) and position is None,
        "recovery": bool(flags & RECOVERY),
        "rpt_seq": rpt_seq,
    }
    if values["mDUpdateAction"] == "NEW":
        return OrderAdded(key, side, order_id, price, values["mDEntrySize"], **about)
    about["previous_size"] = values.get("mDEntryPrevSize")
    return OrderChanged(key, side, order_id, price, values["mDEntrySize"], **about)


def snapshot_updates(snapshot, place):
    header = snapshot.header
    key = MessageKey(*place)
    yield SnapshotBegun(key, header.tot_num_bids, header.tot_num_offers, header.last_rpt_seq)
    for decoded in snapshot.items:
        if decoded.message.id != ORDERS:
            continue
        for entry in decoded.values["noMDEntries"]:
            position = entry.get("mDEntryPositionNo")
            yield SnapshotOrder(
                key, SIDES[entry["mDEntryType"]], entry["secondaryOrderID"],
                mantissa(entry["mDEntryPx"]), entry["mDEntrySize"], position,
                entry["enteringFirm"], entry["mDInsertTimestamp"],
                bool((entry.get("matchEventIndicator") or 0) & IMPLIED) and position is None,
            )  # fmt: skip
    yield SnapshotEnded(key)


class Follower:
    """Follows one channel."""

    def __init__(self, version, *, from_start):
        self.kind = PositionBook if version < 15 else PriorityBook
        self.arbiter = Arbiter(most_wait_ns=5_000_000)
        self.loop = SnapshotLoop()
        self.joining = None if from_start else Joining()
        self.gaps = InstrumentGaps()
        self.books = {}
        self.updates = []
        """(instrument, update) as they were applied."""
        self.version = None
        self.lost = self.healed = self.opened = 0
        self.at = None
        self.watch = lambda place: None
        self.refusals = set()

    def follow(self, folder, channel):
        """Read the captures of a channel in the order of time."""
        merged = []
        for name in ("Incremental_A", "Incremental_B", "Snapshot"):
            for datagram in datagrams(read_packets(folder / f"{channel:03d}_{name}.pcap")):
                merged.append((datagram.time_ns, len(merged), name, datagram.payload))
        for time_ns, _, name, payload in sorted(merged):
            packet = _DECODER.decode(payload)
            if name == "Snapshot":
                self.snapshot_packet(packet)
            else:
                self.incremental_packet(name, packet, time_ns)
        self.outcomes(self.arbiter.expire(2**62))

    # --- the incremental stream

    def incremental_packet(self, feed, packet, time_ns):
        header = packet.header
        ids = [decoded.message.id for decoded in packet.messages]
        if ids == [HEARTBEAT]:
            number = packet.messages[0].values["nextSeqNo"]
            self.outcomes(self.arbiter.heartbeat(header.sequence_version, number, time_ns))
            if self.joining is not None:
                self.joining.heartbeat(header.sequence_version, number)
            return
        place = Place(header.sequence_version, header.sequence_number)
        outcomes = self.arbiter.accept(feed, place, time_ns, packet, resets=ids == [RESET])
        self.outcomes(outcomes)

    def outcomes(self, outcomes):
        for outcome in outcomes:
            if isinstance(outcome, Lost):
                self.lost += 1
                if self.joining is not None:
                    self.joining.lost()
            if isinstance(outcome, Delivered):
                self.version = outcome.place.sequence_version
                packet = outcome.item
                messages = [
                    incremental_of(packet.header, at, decoded)
                    for at, decoded in enumerate(packet.messages)
                ]
                if self.joining is not None:
                    self.joining.packet(outcome.place, messages)
                else:
                    for message in messages:
                        self.message(message)
                    self.watch(outcome.place)

    def message(self, message):
        if message.template_id == CHANNEL_RESET:
            self.healed += len(self.gaps.channel_reset(message.place))
            for security_id in list(self.books):
                self.apply(security_id, ChannelReset(MessageKey(*message.place)))
            return
        security_id = message.security_id
        if security_id is None:
            return
        if message.template_id == EMPTY_BOOK:
            self.healed += self.gaps.emptied(security_id, message.place) is not None
            self.apply(security_id, BookEmptied(MessageKey(*message.place)))
            return
        step, gap = self.gaps.observe(message)
        if gap is not None:
            self.opened += 1
            self.apply(security_id, Interrupted(MessageKey(*message.place), gap.reason))
        if step is Step.RESTART:
            self.apply(security_id, BookEmptied(MessageKey(*message.place)))
        if step.applies:
            self.apply_message(message)

    def apply_message(self, message):
        update = update_of(message)
        if update is not None:
            fault = self.apply(message.security_id, update)
            assert fault is None, fault

    def apply(self, security_id, update):
        self.updates.append((security_id, update))
        return self.books.setdefault(security_id, self.kind()).apply(update)

    # --- the snapshot stream

    def snapshot_packet(self, packet):
        header = packet.header
        ids = [decoded.message.id for decoded in packet.messages]
        if not self.loop.packet(
            header.sequence_version, header.sequence_number, resets=ids == [RESET]
        ):
            return
        for decoded in packet.messages:
            self.snapshot_message(decoded)
        if ids == [RESET] and self.joining is not None:
            joined = self.joining.join(self.loop)
            if isinstance(joined, Joined):
                self.join(joined)
            else:
                self.refusals.add(joined.split(":")[0])

    def snapshot_message(self, decoded):
        values = decoded.values
        if decoded.message.id == HEADER:
            found = self.loop.header(SnapshotHeader.of(values))
        elif decoded.message.id == ORDERS:
            sides = [entry["mDEntryType"] for entry in values["noMDEntries"]]
            found = self.loop.orders(
                values["securityID"], sides.count("BID"), sides.count("OFFER"), decoded
            )
        elif decoded.message.id in (PHASE, RESET):
            return
        else:
            found = self.loop.statistic(values["securityID"], decoded)
        if self.joining is None and found.complete and self.version is not None:
            self.heal(found)

    def join(self, joined):
        for snapshot in joined.snapshots:
            place = joined.places[snapshot.security_id]
            for update in snapshot_updates(snapshot, place):
                self.apply(snapshot.security_id, update)
            self.gaps.begin(snapshot.security_id, snapshot.header.last_rpt_seq, place)
        self.joining = None
        for message in joined.messages:
            if message.template_id == CHANNEL_RESET:
                self.gaps.channel_reset(message.place)
                for security_id in list(self.books):
                    if joined.applies(message, security_id):
                        self.apply(security_id, ChannelReset(MessageKey(*message.place)))
            else:
                self.message(message)

    def heal(self, snapshot):
        healed = self.gaps.snapshot(snapshot.header, self.version)
        if healed is None:
            return
        self.healed += 1
        for update in snapshot_updates(snapshot, healed.snapshot):
            self.apply(snapshot.security_id, update)
        for message in healed.messages:
            self.apply_message(message)


def lines_of(book):
    """The sides of a book as the truth writes them."""
    return [
        [
            [
                None if order.price is None else f"{Decimal(order.price) / 10**4:.4f}",
                order.size,
                order.order_id,
                order.firm,
                order.insert_time_ns,
            ]
            for order in book.orders(side)
        ]
        for side in Side
    ]


def is_sound(book):
    return book.state is not State.STALE
