"""Gaps of single instruments and how they heal (000 §6.5.13, §7.4.1)."""

import random

from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from pregao.umdf.gaps import Gap, InstrumentGaps, Step
from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.recovery import Incremental
from pregao.umdf.sequencing import Place
from pregao.umdf.templates import EMPTY_BOOK, NEWS, ORDER


def message(number, security_id, rpt, *, version=1, item=None, template=ORDER):
    return Incremental(Place(version, number), 0, template, security_id, rpt, item)


def header(security_id, last, rpt, *, version=1):
    return SnapshotHeader(security_id, last, 1, 0, 0, 0, rpt, version)


def steps(gaps, *messages):
    return [gaps.observe(each)[0] for each in messages]


def test_7_4_1_a_lost_packet_that_did_not_touch_the_instrument_needs_no_recovery():
    """Packet 703 is lost; the counter of instrument 1111 goes on."""
    gaps = InstrumentGaps()
    assert steps(gaps, message(702, 1111, 6997), message(704, 1111, 6998)) == [
        Step.FIRST,
        Step.NEXT,
    ]
    assert gaps.stale == {}


def test_7_4_1_a_lost_packet_that_did_touch_it_must_be_recovered():
    """Packet 803 is lost; the counter went from 6998 to 7000."""
    gaps = InstrumentGaps()
    gaps.observe(message(802, 1111, 6998))
    gaps.observe(message(802, 2222, 8000))
    step, gap = gaps.observe(message(804, 1111, 7000))
    assert step is Step.GAP
    assert (gap.security_id, gap.first, gap.last) == (1111, 6999, 6999)
    assert gap.found_at == Place(1, 804)
    assert "1 messages" in gap.reason
    assert list(gaps.stale) == [1111]
    assert steps(gaps, message(805, 2222, 8001)) == [Step.NEXT]  # others are untouched
    assert steps(gaps, message(806, 1111, 7001)) == [Step.QUEUED]
    assert gaps.queued(1111) == 2


def test_7_4_1_a_later_snapshot_heals_and_the_queue_catches_up():
    gaps = InstrumentGaps()
    for each in (
        message(802, 1111, 6998),
        message(804, 1111, 7000),
        message(805, 1111, 7001),
        message(807, 1111, 7002),
    ):
        gaps.observe(each)
    assert gaps.snapshot(header(1111, 802, 6998), 1) is None  # older than the gap
    assert gaps.snapshot(header(2222, 900, 9), 1) is None  # another one
    healed = gaps.snapshot(header(1111, 805, 7001), 1)
    assert healed is not None
    assert (healed.gap.first, healed.gap.last, healed.snapshot) == (6999, 6999, Place(1, 805))
    assert [each.rpt_seq for each in healed.messages] == [7002]
    assert gaps.stale == {}
    assert steps(gaps, message(808, 1111, 7003)) == [Step.NEXT]


def test_7_4_1_a_snapshot_of_just_the_missing_message_is_enough():
    """Its place lies before the queue, but the counter connects."""
    gaps = InstrumentGaps()
    gaps.observe(message(802, 1111, 6998))
    gaps.observe(message(806, 1111, 7000))
    healed = gaps.snapshot(header(1111, 804, 6999), 1)
    assert [each.rpt_seq for each in healed.messages] == [7000]
    assert steps(gaps, message(807, 1111, 7001)) == [Step.NEXT]


def test_a_snapshot_ahead_of_the_stream_covers_what_comes_later():
    gaps = InstrumentGaps()
    gaps.observe(message(802, 1111, 6998))
    gaps.observe(message(804, 1111, 7000))
    healed = gaps.snapshot(header(1111, 806, 7002), 1)
    assert healed.messages == []
    assert steps(
        gaps, message(805, 1111, 7001), message(806, 1111, 7002), message(807, 1111, 7003)
    ) == [Step.COVERED, Step.COVERED, Step.NEXT]


def test_7_4_1_without_last_rpt_seq_everything_can_be_processed():
    gaps = InstrumentGaps()
    gaps.begin(1111, None, Place(1, 703))
    assert steps(gaps, message(704, 1111, 1), message(705, 1111, 2)) == [Step.NEXT, Step.NEXT]
    gaps.begin(2222, None, Place(1, 703))
    assert steps(gaps, message(704, 2222, 3)) == [Step.GAP]


def test_an_instrument_without_a_snapshot_may_begin_with_any_count():
    gaps = InstrumentGaps()
    assert steps(gaps, message(704, 1111, 5), message(705, 1111, 6)) == [Step.FIRST, Step.NEXT]


def test_joining_sets_the_counter_and_the_place():
    gaps = InstrumentGaps()
    gaps.begin(1111, 6998, Place(1, 703))
    assert steps(gaps, message(703, 1111, 6998), message(704, 1111, 6999)) == [
        Step.COVERED,
        Step.NEXT,
    ]
    gaps.begin(2222, 8000, Place(1, 704))
    assert steps(gaps, message(705, 2222, 8002)) == [Step.GAP]


def test_6_5_13_the_first_message_after_empty_book_carries_1_and_is_no_gap():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 500))
    assert gaps.emptied(1111, Place(1, 11)) is None
    assert steps(gaps, message(11, 1111, 1), message(12, 1111, 2)) == [Step.NEXT, Step.NEXT]


def test_a_lost_empty_book_is_recognised_by_the_counter():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 500))
    assert steps(gaps, message(12, 1111, 1)) == [Step.RESTART]  # nothing else was between
    gaps.observe(message(13, 1111, 2))
    step, gap = gaps.observe(message(20, 1111, 2))
    assert step is Step.GAP
    assert (gap.first, gap.last) == (None, None)
    assert "went from 2 back to 2" in gap.reason


def test_an_old_snapshot_does_not_heal_a_counter_that_went_back():
    """Lost: 501, an EmptyBook, 1 and 2. A snapshot from before must not pass for one after."""
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 500))
    gaps.observe(message(20, 1111, 3))
    assert gaps.snapshot(header(1111, 11, 501), 1) is None
    healed = gaps.snapshot(header(1111, 19, 2), 1)
    assert [each.rpt_seq for each in healed.messages] == [3]


def test_empty_book_heals_a_stale_instrument():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 5))
    gaps.observe(message(12, 1111, 9))
    healed = gaps.emptied(1111, Place(1, 13))
    assert (healed.gap.first, healed.snapshot, healed.messages) == (6, None, [])
    assert steps(gaps, message(13, 1111, 1)) == [Step.NEXT]


def test_channel_reset_makes_all_books_known_and_keeps_the_counters():
    gaps = InstrumentGaps()
    for security_id in (1111, 2222):
        gaps.observe(message(10, security_id, 5))
    gaps.observe(message(12, 1111, 9))
    gaps.begin(3333, 7, Place(1, 50))
    (healed,) = gaps.channel_reset(Place(1, 13))
    assert healed.gap.security_id == 1111
    assert steps(gaps, message(14, 1111, 10), message(15, 2222, 6)) == [Step.NEXT, Step.NEXT]


def test_what_a_snapshot_covers_is_not_done_again_by_resets():
    gaps = InstrumentGaps()
    gaps.begin(1111, 3, Place(1, 50))
    assert gaps.emptied(1111, Place(1, 40)) is None
    assert steps(gaps, message(51, 1111, 4)) == [Step.NEXT]  # still 3 before it


def test_messages_without_a_counter_are_no_gap():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 5))
    assert steps(gaps, message(11, 1111, None), message(12, 1111, 0), message(13, 1111, 6)) == [
        Step.UNCOUNTED,
        Step.UNCOUNTED,
        Step.NEXT,
    ]


def test_news_and_definitions_go_through_even_for_a_stale_instrument():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 5))
    gaps.observe(message(11, 1111, 9))
    assert steps(
        gaps, message(12, 1111, None, template=12), message(12, None, None, template=NEWS)
    ) == [
        Step.UNCOUNTED,
        Step.UNCOUNTED,
    ]


def test_a_second_gap_begins_the_queue_anew():
    gaps = InstrumentGaps()
    for number, rpt in [(10, 5), (12, 7), (13, 8), (15, 10)]:
        gaps.observe(message(number, 1111, rpt))
    assert gaps.queued(1111) == 1
    assert gaps.snapshot(header(1111, 11, 6), 1) is None
    healed = gaps.snapshot(header(1111, 14, 9), 1)
    assert [each.rpt_seq for each in healed.messages] == [10]


def test_a_book_that_did_not_fit_is_healed_the_same_way():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 5))
    bad = message(11, 1111, 6)
    assert gaps.observe(bad)[0] is Step.NEXT
    gap = gaps.mark_stale(bad, "order 5 is not in the book")
    assert gap == Gap(1111, Place(1, 11), None, None, "order 5 is not in the book")
    assert gaps.mark_stale(bad, "again") is None
    assert steps(gaps, message(12, 1111, 7)) == [Step.QUEUED]
    healed = gaps.snapshot(header(1111, 11, 6), 1)
    assert [each.rpt_seq for each in healed.messages] == [7]


def test_7_2_a_snapshot_of_an_older_sequence_version_heals_nothing():
    gaps = InstrumentGaps()
    gaps.observe(message(10, 1111, 5, version=4))
    gaps.observe(message(12, 1111, 7, version=4))
    assert gaps.snapshot(header(1111, 900, 6, version=3), 4) is None
    assert gaps.snapshot(header(1111, 11, 6, version=None), 4) is not None


def test_the_queue_has_a_limit():
    gaps = InstrumentGaps(most_queued=3)
    gaps.observe(message(1, 1111, 1))
    for number in range(3, 10):
        gaps.observe(message(number, 1111, number))
    assert gaps.queued(1111) == 3
    assert gaps.snapshot(header(1111, 5, 5), 1) is None  # 6 was forgotten
    assert [m.rpt_seq for m in gaps.snapshot(header(1111, 7, 7), 1).messages] == [8, 9]


class Exchange:
    """Counts messages of instruments; a book is the list of what was told since EmptyBook."""

    def __init__(self, rng):
        self.rng = rng
        self.books = {11: [], 22: [], 33: []}
        self.counts = dict.fromkeys(self.books, 0)
        self.number = 0
        self.told = 0

    def packet(self):
        """The messages of the next packet, each with the book as it is after it."""
        self.number += 1
        found = []
        for _ in range(self.rng.randint(1, 3)):
            owner = self.rng.choice(list(self.books))
            if self.rng.random() < 0.04:
                self.books[owner], self.counts[owner] = [], 0
                found.append(
                    (
                        message(self.number, owner, None, template=EMPTY_BOOK),
                        list(self.books[owner]),
                    )
                )
                continue
            self.told += 1
            self.counts[owner] += 1
            self.books[owner].append(self.told)
            update = message(self.number, owner, self.counts[owner], item=self.told)
            found.append((update, list(self.books[owner])))
        return found

    def snapshot(self, owner):
        return (
            header(owner, self.number, self.counts[owner] or None),
            list(self.books[owner]),
        )


class CoincidenceError(Exception):
    """The one case that counters cannot show."""


class Client:
    """Follows the exchange through gaps; knows when a book cannot be trusted."""

    def __init__(self):
        self.gaps = InstrumentGaps()
        self.books = {11: [], 22: [], 33: []}
        self.healed = 0
        self.emptied_unseen = {}  # by instrument: the packet of an EmptyBook that was lost
        for owner in self.books:  # from the start of the week on
            self.gaps.begin(owner, 0, Place(1, 0))

    def take(self, update, truth):
        owner = update.security_id
        if update.template_id == EMPTY_BOOK:
            self.gaps.emptied(owner, update.place)
            self.books[owner] = []
            self.emptied_unseen.pop(owner, None)
            assert owner not in self.gaps.stale
            return
        step, _ = self.gaps.observe(update)
        if step is Step.RESTART:
            self.books[owner] = []
            self.emptied_unseen.pop(owner, None)
        # By chance the counter may go on as if no EmptyBook and its messages had been lost.
        if step is Step.NEXT and owner in self.emptied_unseen:
            raise CoincidenceError
        if step.applies:
            self.books[owner].append(update.item)
            assert self.books[owner] == truth

    def snapshot(self, head, book, truths):
        healed = self.gaps.snapshot(head, 1)
        if healed is None:
            return
        self.healed += 1
        owner = head.security_id
        self.books[owner] = [*book, *(each.item for each in healed.messages)]
        if healed.messages:
            last = healed.messages[-1]
            right = self.books[owner] == truths[owner, last.rpt_seq, last.item]
            if not right and owner in self.emptied_unseen:
                raise CoincidenceError
            assert right
        # A snapshot may be from before the EmptyBook.
        if self.emptied_unseen.get(owner, 0) <= head.last_msg_seq_num_processed:
            self.emptied_unseen.pop(owner, None)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.02, 0.1, 0.4]))
@example(seed=1379785, loss=0.4)
def test_books_that_are_not_stale_are_right_whatever_is_lost(seed, loss):
    """Packets are lost, snapshots come at any time and late: what is applied is always true."""
    try:
        follow(seed, loss)
    except CoincidenceError:
        reject()


def test_the_losses_of_that_test_open_gaps_and_snapshots_heal_them():
    lost, healed = follow(3, 0.1)
    assert lost > 5
    assert healed > 5


def follow(seed, loss):
    """How many packets were lost, and how many instruments healed."""
    rng = random.Random(seed)
    lost = 0
    exchange, client = Exchange(rng), Client()
    truths, waiting = {}, []
    for _ in range(150):
        packet = exchange.packet()
        for update, truth in packet:
            truths[update.security_id, update.rpt_seq, update.item] = truth
        if rng.random() < loss and exchange.number > 1:
            lost += 1
            for update, _ in packet:
                if update.template_id == EMPTY_BOOK:
                    client.emptied_unseen[update.security_id] = exchange.number
        else:
            for update, truth in packet:
                client.take(update, truth)
        if rng.random() < 0.3:
            waiting.append(exchange.snapshot(rng.choice(list(exchange.books))))
        while waiting and rng.random() < 0.5:
            client.snapshot(*waiting.pop(0), truths)
    for owner in exchange.books:  # a last message shows every gap, a last snapshot heals it
        exchange.number += 1
        exchange.counts[owner] += 1
        exchange.told += 1
        exchange.books[owner].append(exchange.told)
        last = message(exchange.number, owner, exchange.counts[owner], item=exchange.told)
        truths[owner, last.rpt_seq, last.item] = list(exchange.books[owner])
        client.take(last, exchange.books[owner])
        client.snapshot(*exchange.snapshot(owner), truths)
        assert client.books[owner] == exchange.books[owner]
    assert client.gaps.stale == {}
    return lost, client.healed
