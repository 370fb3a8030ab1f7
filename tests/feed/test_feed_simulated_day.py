"""Simulated days, over good and bad lines: the books end equal to the exchange's own."""

from decimal import Decimal

import pytest

from pregao.book.level_books import LevelsBook
from pregao.book.state import State
from pregao.clock import MILLISECOND
from pregao.feed.channel.follower import Follower, FollowerListener
from pregao.umdf.sequencing import PacketKey
from pregao.units import Side
from tests.feed.feed_days import Lines, packets_of, simulated


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


class Comparison(FollowerListener):
    """Compares every book of the truth when its packet has been taken."""

    def __init__(self, truth):
        self.expected = {}
        for line in truth:
            packet_key = PacketKey(line["sequence_version"], line["sequence_number"])
            self.expected.setdefault(packet_key, []).append(line)
        self.compared = self.packets_lost = self.opened = self.heals = self.untrusted = 0
        self.updates = []
        self.follower = None

    def on_update(self, security_id, event, update):
        self.updates.append((security_id, update))

    def lost(self, lost):
        self.packets_lost += 1

    def on_stale(self, gap):
        self.opened += 1

    def on_healed(self, healed):
        self.heals += 1

    def on_packet(self, packet_key):
        for line in self.expected.pop(packet_key, ()):
            security_id = line["security_id"]
            book = self.follower.books.get(security_id)
            if security_id in self.follower.stale or security_id in self.follower.unconfirmed:
                self.untrusted += 1
                continue
            if book is None:
                assert line["bids"] == line["asks"] == []
                continue
            assert book.state not in (State.STALE, State.UNCONFIRMED)
            assert lines_of(book) == [line["bids"], line["asks"]]
            self.compared += len(line["bids"]) + len(line["asks"])


def followed(out, truth, *, from_the_start):
    """Follow the captures of both feeds, in arrival order."""
    seen = Comparison(truth)
    follower = Follower(from_the_start=from_the_start, listener=seen)
    lines = Lines(follower, seen.lost, max_wait_ns=5 * MILLISECOND)
    seen.follower = follower
    for each in packets_of(out):
        if each.stream == "Snapshot":
            follower.snapshot(each.packet)
        else:
            lines.receive(each.stream, each.packet, each.time_ns)
    lines.expire(2**62)
    return follower, seen


def check_the_end(follower, truth):
    """All books are valid and equal the truth."""
    assert follower.stale == {}
    assert follower.unconfirmed == frozenset()
    orders = 0
    for line in truth:
        if line["final"] and (line["bids"] or line["asks"]):
            assert lines_of(follower.books[line["security_id"]]) == [line["bids"], line["asks"]]
            orders += len(line["bids"]) + len(line["asks"])
    assert orders > 50


@pytest.mark.parametrize("version", [7, 9, 10, 15, 16, 17])
def test_without_faults_every_version_gives_the_books_of_the_exchange(tmp_path, version):
    truth = simulated(tmp_path, version)
    follower, seen = followed(tmp_path, truth, from_the_start=True)
    assert (seen.packets_lost, seen.opened, seen.untrusted) == (0, 0, 0)
    assert seen.compared > 300
    check_the_end(follower, truth)


@pytest.mark.parametrize(
    ("version", "feeds", "resets"),
    [
        (16, ("A",), ()),
        (16, ("A", "B", "snapshot"), ()),
        (16, ("A", "B"), ("sequence@0.5",)),
        (15, ("A", "B"), ("channel@0.5",)),
        (9, ("A", "B"), ("channel@0.4", "sequence@0.7")),
        (7, ("A", "B", "snapshot"), ()),
    ],
)
def test_over_bad_lines_gaps_open_and_heal(tmp_path, version, feeds, resets):
    truth = simulated(tmp_path, version, lossy=feeds, resets=resets, duration_ns=8 * 10**9, seed=2)
    follower, seen = followed(tmp_path, truth, from_the_start=True)
    if "B" in feeds:
        assert seen.packets_lost > 0
        assert seen.opened > 0
        assert seen.heals == seen.opened
    else:
        assert (seen.packets_lost, seen.opened) == (0, 0)  # B had what A had not
    assert seen.compared > 200
    check_the_end(follower, truth)


@pytest.mark.parametrize(("version", "lossy"), [(16, False), (16, True), (10, True)])
def test_a_receiver_that_joins_in_the_middle_of_the_day_has_the_same_books(
    tmp_path, version, lossy
):
    feeds = ("A", "B") if lossy else ()
    truth = simulated(tmp_path, version, lossy=feeds, late_join="0.5")
    follower, _ = followed(tmp_path, truth, from_the_start=False)
    check_the_end(follower, truth)


def test_levels_without_orders_follow_a_day_of_version_16(tmp_path):
    """The sizes and prices in messages about the past are sufficient."""
    truth = simulated(tmp_path, 16)
    follower, seen = followed(tmp_path, truth, from_the_start=True)
    levels = {security_id: LevelsBook() for security_id in follower.books}
    for security_id, update in seen.updates:
        assert levels[security_id].apply(update) is None
    for security_id, book in follower.books.items():
        for side in Side:
            assert levels[security_id].levels(side) == book.levels(side)
