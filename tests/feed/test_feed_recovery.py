"""One instrument followed through gaps, and how it heals (000 §6.5.9, §6.5.13, §7.4, §7.4.1)."""

import random
from decimal import Decimal

import numpy as np
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from pregao.book.updates import MessageKey
from pregao.feed.recovery import (
    NO_PAST,
    ApplyMessage,
    ClearBook,
    InstrumentFollower,
    InstrumentGap,
    LoadSnapshot,
    MarkHealed,
    MarkStale,
    MatchSnapshot,
    QueueLimits,
    RestartBook,
    is_void,
    messages_missing,
)
from pregao.feed.replay.audit import _price
from pregao.umdf.gaps import NOTHING, GapItem, IncrementalMessage, InstrumentCount
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.templates import EMPTY_BOOK, ORDER


def instrument(*, from_the_start=True, **settings):
    return InstrumentFollower(1111, InstrumentCount.new(from_the_start=from_the_start), **settings)


def message(number, rpt, *, version=1, item=None, template=ORDER):
    return IncrementalMessage(PacketKey(version, number), 0, template, 1111, rpt, item)


def snapshot(last, rpt, *, version=1):
    header = SnapshotHeader(1111, last, 1, 0, 0, 0, rpt, version)
    return InstrumentSnapshot(1111, header), PacketKey(version, last)


def known(rpt, number=1):
    """An instrument whose last message is known."""
    followed = InstrumentFollower(1111, InstrumentCount(NOTHING))
    assert applied(followed.message(message(number, rpt))) == [rpt]
    return followed


def applied(changes):
    return [change.message.rpt_seq for change in changes if isinstance(change, ApplyMessage)]


def kinds(changes):
    return [type(change) for change in changes]


def test_7_4_1_a_lost_packet_that_did_not_touch_the_instrument_needs_no_recovery():
    """Packet 703 is lost; the counter of instrument 1111 continues."""
    followed = known(6997, 702)
    assert kinds(followed.message(message(704, 6998))) == [ApplyMessage]
    assert followed.gap is None


def test_7_4_1_a_lost_packet_that_did_touch_it_must_be_recovered():
    """Packet 803 is lost; the counter went from 6998 to 7000."""
    followed = known(6998, 802)
    (stale,) = followed.message(message(804, 7000))
    assert isinstance(stale, MarkStale)
    assert (stale.gap.first, stale.gap.last) == (6999, 6999)
    assert stale.gap.found_at == MessageKey(1, 804, 0)
    assert "1 message of" in stale.gap.reason
    assert followed.message(message(806, 7001)) == []
    assert followed.queued == 2


def test_7_4_1_a_later_snapshot_heals_and_the_queue_catches_up():
    followed = known(6998, 802)
    for number, rpt in [(804, 7000), (805, 7001), (807, 7002)]:
        followed.message(message(number, rpt))
    assert followed.snapshot(*snapshot(802, 6998)) == []  # older than the gap
    load, healed, apply = followed.snapshot(*snapshot(805, 7001))
    assert isinstance(load, LoadSnapshot)
    assert isinstance(healed, MarkHealed)
    assert (healed.by, healed.as_of) == (GapItem.SNAPSHOT, PacketKey(1, 805))
    assert (healed.gap.first, healed.gap.last) == (6999, 6999)
    assert apply.message.rpt_seq == 7002
    assert followed.gap is None
    assert kinds(followed.message(message(808, 7003))) == [ApplyMessage]


def test_7_4_1_a_snapshot_of_just_the_missing_message_is_enough():
    """Its packet key is before the message that showed the gap, but the counter connects."""
    followed = known(6998, 802)
    followed.message(message(806, 7000))
    assert applied(followed.snapshot(*snapshot(804, 6999))) == [7000]
    assert applied(followed.message(message(807, 7001))) == [7001]


def test_7_4_1_without_last_rpt_seq_everything_can_be_processed():
    followed = instrument(from_the_start=False)
    followed.snapshot(*snapshot(703, None))
    assert applied(followed.message(message(704, 1))) == [1]
    other = instrument(from_the_start=False)
    other.snapshot(*snapshot(703, None))
    assert kinds(other.message(message(704, 3))) == [MarkStale]


def test_7_4_per_instrument_what_its_snapshot_holds_is_discarded():
    """Queued from packet 1232 on; the snapshot holds up to 1234."""
    followed = instrument(from_the_start=False)
    for number, rpt in [(1232, 5), (1236, 6), (1238, 7)]:
        followed.message(message(number, rpt))
    assert followed.gap.reason == NO_PAST
    assert applied(followed.snapshot(*snapshot(1234, 5))) == [6, 7]


def test_6_5_9_an_instrument_without_a_snapshot_begins_empty_and_misses_nothing():
    followed = instrument(from_the_start=False)
    followed.message(message(700, 41))
    followed.message(message(702, 42))
    changes = followed.absent(PacketKey(1, 699))
    assert kinds(changes[:2]) == [ClearBook, MarkHealed]
    assert applied(changes) == [41, 42]
    assert applied(followed.message(message(703, 43))) == [43]


def test_a_stale_book_is_empty_when_a_complete_loop_is_without_it():
    followed = known(5, 10)
    followed.message(message(12, 9))
    assert kinds(followed.absent(PacketKey(1, 11), 1, 1)) == [ClearBook, MarkHealed, ApplyMessage]
    other = known(5, 10)
    other.message(message(12, 9))
    assert kinds(other.absent(PacketKey(1, 13))) == [ClearBook, MarkHealed]
    assert kinds(known(5, 10).absent(PacketKey(1, 13))) == []  # nothing is missing


def test_while_packets_are_missing_messages_are_applied_and_kept():
    """A snapshot that comes late is loaded before them."""
    followed = known(5, 10)
    assert applied(followed.message(message(12, 6), 1)) == [6]
    assert followed.unconfirmed(1)
    assert followed.queued == 1
    changes = followed.snapshot(*snapshot(11, 5), 1, 1)
    assert kinds(changes) == [LoadSnapshot, ApplyMessage]
    assert not followed.unconfirmed(1)
    assert followed.queued == 0


def test_a_snapshot_from_within_a_gap_proves_only_its_content():
    followed = known(5, 10)
    changes = followed.snapshot(*snapshot(12, 6), 5, 2)  # 11 to 15 are missing
    assert kinds(changes) == [LoadSnapshot]
    assert followed.count.proven == 2
    assert followed.unconfirmed(5)


def test_6_5_9_below_a_gap_in_the_queue_nothing_is_joined():
    followed = instrument(from_the_start=False)
    followed.message(message(700, 5))
    followed.message(message(705, 9))
    changes = followed.snapshot(*snapshot(700, 5))
    assert kinds(changes) == [
        LoadSnapshot,
        MarkHealed,
        MarkStale,
    ]  # valid up to 700, stale again at 705
    assert applied(followed.snapshot(*snapshot(704, 8))) == [9]


def test_6_5_13_a_book_that_is_emptied_is_known_again():
    followed = known(5, 10)
    followed.message(message(12, 9))
    healed, _ = followed.message(message(13, None, template=EMPTY_BOOK))
    assert (healed.by, healed.gap.first) == (GapItem.EMPTIED, 6)
    assert applied(followed.message(message(13, 1))) == [1]


def test_a_lost_empty_book_is_recognised_by_the_counter():
    followed = known(500, 10)
    assert kinds(followed.message(message(12, 1))) == [
        RestartBook,
        ApplyMessage,
    ]  # nothing else was between
    followed.message(message(13, 2))
    (stale,) = followed.message(message(20, 2))
    assert (stale.gap.first, stale.gap.last) == (None, None)
    assert "went back from 2 to 2" in stale.gap.reason


def test_an_old_snapshot_does_not_heal_a_counter_that_went_back():
    """Lost: 501, an EmptyBook, 1 and 2. A snapshot from before must not pass for one after."""
    followed = known(500, 10)
    followed.message(message(20, 3))
    followed.snapshot(*snapshot(11, 501))
    assert followed.gap is not None
    assert applied(followed.snapshot(*snapshot(19, 2))) == [3]


def test_6_5_12_a_channel_reset_makes_a_book_known_and_keeps_the_counter():
    followed = known(5, 10)
    followed.message(message(12, 9))
    (healed,) = followed.reset(PacketKey(1, 13))
    assert healed.by is GapItem.RESET
    assert applied(followed.message(message(14, 10))) == [10]
    assert known(5, 10).reset(PacketKey(1, 13)) == []


def test_a_second_gap_opens_where_the_first_was_healed():
    followed = known(5, 10)
    for number, rpt in [(12, 7), (13, 8), (15, 10)]:
        followed.message(message(number, rpt))
    changes = followed.snapshot(*snapshot(11, 6))
    assert kinds(changes) == [LoadSnapshot, MarkHealed, ApplyMessage, ApplyMessage, MarkStale]
    assert followed.gap.found_at == MessageKey(1, 15, 0)
    assert applied(followed.snapshot(*snapshot(14, 9))) == [10]


def test_a_snapshot_that_counts_more_than_was_received_is_loaded_immediately():
    """The lost message would only be noticed with the next one."""
    followed = known(5, 10)
    assert kinds(followed.snapshot(*snapshot(12, 6))) == [LoadSnapshot]
    assert applied(followed.message(message(13, 7))) == [7]
    assert kinds(followed.snapshot(*snapshot(13, 7))) == [MatchSnapshot]


def test_the_first_count_after_an_unknown_one_is_compared_with_a_late_snapshot():
    """Nothing was known when 9 came; an earlier snapshot shows that 8 is missing."""
    followed = known(9, 20)
    (stale,) = followed.snapshot(*snapshot(15, 7))
    assert isinstance(stale, MarkStale)
    assert stale.gap.found_at == MessageKey(1, 20, 0)
    sound = known(9, 20)
    assert sound.snapshot(*snapshot(15, 8)) == []


def test_a_book_that_did_not_fit_is_healed_the_same_way():
    followed = known(5, 10)
    bad = message(11, 6)
    followed.message(bad)
    (stale,) = followed.on_inconsistent_update(bad, "order 5 is not in the book")
    gap = InstrumentGap(1111, MessageKey(1, 11, 0), None, None, "order 5 is not in the book")
    assert stale.gap == gap
    assert followed.on_inconsistent_update(bad, "again") == []
    assert followed.message(message(12, 7)) == []
    assert applied(followed.snapshot(*snapshot(11, 6))) == [7]


def test_7_2_a_snapshot_of_an_older_sequence_version_heals_nothing():
    followed = InstrumentFollower(1111, InstrumentCount(NOTHING))
    followed.message(message(10, 5, version=4))
    followed.message(message(12, 7, version=4))
    assert followed.snapshot(*snapshot(900, 6, version=3)) == []
    assert applied(followed.snapshot(*snapshot(11, 6, version=4))) == [7]


def test_the_queue_has_a_limit():
    followed = instrument(limits=QueueLimits(max_queued=3))
    followed.message(message(1, 1))
    for number in range(3, 10):
        followed.message(message(number, number))
    assert followed.queued == 3
    assert followed.snapshot(*snapshot(5, 5)) == []  # 6 was forgotten
    assert applied(followed.snapshot(*snapshot(7, 7))) == [8, 9]


def test_7_2_a_header_that_is_alone_and_counts_nothing_means_nothing():
    assert is_void(SnapshotHeader(1, 5, 1, 0, 0, 0, None, 1))
    assert not is_void(SnapshotHeader(1, 5, 1, 0, 0, 0, 7, 1))
    assert not is_void(SnapshotHeader(1, 5, 1, 0, 0, 1, None, 1))


class Exchange:
    """Counts messages of one instrument; a book is the list of messages since EmptyBook."""

    def __init__(self, rng):
        self.rng = rng
        self.book = []
        self.count = 0
        self.number = 0
        self.published = 0

    def packet(self):
        """The messages of the next packet, each with the book after it."""
        self.number += 1
        found = []
        for _ in range(self.rng.randint(0, 2)):
            if self.rng.random() < 0.04:
                self.book, self.count = [], 0
                found.append((message(self.number, None, template=EMPTY_BOOK), []))
                continue
            self.published += 1
            self.count += 1
            self.book.append(self.published)
            found.append((message(self.number, self.count, item=self.published), list(self.book)))
        return found

    def snapshot(self):
        return *snapshot(self.number, self.count or None), list(self.book)


class CoincidenceError(Exception):
    """The one case that counters cannot show."""


class Client:
    """Keeps the book as the followed instrument says."""

    def __init__(self):
        self.followed = instrument()
        self.book = []
        self.healed = 0
        self.emptied_unseen = False  # an EmptyBook was lost

    def take(self, changes, book=None):
        for change in changes:
            match change:
                case ApplyMessage(update) if update.template_id == EMPTY_BOOK:
                    self.book, self.emptied_unseen = [], False
                case ApplyMessage(update):
                    self.book.append(update.item)
                case RestartBook():
                    self.book, self.emptied_unseen = [], False
                case LoadSnapshot():
                    self.book = list(book)
                case MarkHealed():
                    self.healed += 1

    def check(self, truth):
        if self.followed.gap is None and self.book != truth:
            if self.emptied_unseen:
                raise CoincidenceError
            raise AssertionError((self.book, truth))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.02, 0.1, 0.4]))
@example(seed=1379785, loss=0.4)
def test_a_book_that_is_not_stale_is_right_whatever_is_lost(seed, loss):
    """Packets are lost, snapshots come at any time and late: what is applied is always true."""
    try:
        run(seed, loss)
    except CoincidenceError:
        reject()


def test_the_losses_of_that_test_open_gaps_and_snapshots_heal_them():
    lost, healed = run(3, 0.1)
    assert lost > 5
    assert healed > 5


def run(seed, loss):
    """Return the number of lost packets, and how many times the instrument healed."""
    rng = random.Random(seed)
    lost = 0
    exchange, client = Exchange(rng), Client()
    waiting = []
    for _ in range(400):
        packet = exchange.packet()
        if rng.random() < loss:
            lost += bool(packet)
            for update, _ in packet:
                client.emptied_unseen |= update.template_id == EMPTY_BOOK
        else:
            for update, truth in packet:
                client.take(client.followed.message(update))
                client.check(truth)
        if rng.random() < 0.1:
            waiting.append(exchange.snapshot())
        while waiting and rng.random() < 0.5:
            found, packet_key, book = waiting.pop(0)
            client.take(client.followed.snapshot(found, packet_key), book)
    exchange.number += 1  # a last message shows every gap, a last snapshot heals it
    exchange.count += 1
    exchange.published += 1
    exchange.book.append(exchange.published)
    last = message(exchange.number, exchange.count, item=exchange.published)
    client.take(client.followed.message(last))
    found, packet_key, book = exchange.snapshot()
    client.take(client.followed.snapshot(found, packet_key), book)
    assert client.followed.gap is None
    client.check(exchange.book)
    return lost, client.healed


def test_missing_messages_are_counted_in_words():
    assert [messages_missing(count) for count in (1, 2, 11)] == [
        "1 message of the instrument is missing",
        "2 messages of the instrument are missing",
        "11 messages of the instrument are missing",
    ]


@given(st.integers(-(2**63) + 1, 2**63 - 1))
@example(2**53 + 1)
@example(-(2**63) + 1)
@example(-1)
@example(0)
def test_a_price_of_the_audit_has_all_its_digits(mantissa):
    text = _price(np.int64(mantissa))
    assert int(text.replace(".", "")) == mantissa
    assert len(text.partition(".")[2]) == 4
    assert Decimal(text) * 10**4 == mantissa
