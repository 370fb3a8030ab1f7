"""The follower and its bulk twin: same books, same ticks, same stale spans, over bad lines."""

from __future__ import annotations

import numpy as np
import pytest

from pregao.book.level_books import TickBuilder
from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.state import State
from pregao.book.update_rows import NULL
from pregao.book.updates import GapExcluded, GapPossible
from pregao.exchange.simulation.settings import SCHEMA_VERSIONS
from pregao.feed.channel.follower import NO_EVENT, Follower, FollowerListener
from pregao.feed.packet_keys import AFTER_PACKET, message_serial
from pregao.umdf import templates
from pregao.umdf.gaps import GapItem
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.sequencing import PacketKey
from pregao.units import Side
from tests.feed.channel_messages import (
    END,
    channel_reset,
    empty_book,
    loop,
    order,
    packet,
    snapshot,
    snapshot_orders,
)
from tests.feed.feed_days import Captured, arbitrated, bulk, packets_of, simulated

DEPTH = 5


class Log(FollowerListener):
    """Events of each book, dated: healing by a snapshot counts as of its packet key."""

    def __init__(self, base):
        self.base = base
        self.updates = {}
        self.spans = []
        self.open = {}
        self.heals = self.doubts = 0

    def serial_of(self, key, *, after_packet=False):
        serial = np.array([PacketKey(*key[:2]).serial(self.base)])
        index = AFTER_PACKET if after_packet else key[2]
        return int(message_serial(serial, index)[0])

    def on_update(self, security_id, event, update):
        if isinstance(update, GapPossible | GapExcluded):
            self.doubts += isinstance(update, GapPossible)
            return
        after_packet = event == NO_EVENT
        serial = self.serial_of(update.key, after_packet=after_packet)
        log = self.updates.setdefault(security_id, [])
        # What a snapshot is loaded before goes through again.
        while log and after_packet and log[-1][0] > serial:
            log.pop()
        log.append((serial, event if not after_packet else -2 - serial, update))

    def on_stale(self, gap):
        self.open[gap.security_id] = self.serial_of(gap.found_at)

    def on_healed(self, healed):
        self.heals += 1
        after_packet = healed.by in (GapItem.SNAPSHOT, GapItem.ABSENT)
        began = self.open.pop(healed.gap.security_id)
        ended = self.serial_of((*healed.as_of, 0), after_packet=after_packet)
        if ended > began:
            self.spans.append((healed.gap.security_id, began, ended))


def plain(captured, base, *, from_the_start):
    """Follow packets one by one; the follower and what it did."""
    log = Log(base)
    follower = Follower(from_the_start=from_the_start, listener=log)
    for each in captured:
        if each.stream == "Snapshot":
            follower.snapshot(each.packet)
        elif each.packet.header.sequenced:
            follower.deliver(each.packet)
    return follower, log


def ticks_of(log, kind):
    """The ticks of every book, from what happened to it."""
    found = []
    for security_id, updates in log.updates.items():
        maker = TickBuilder(kind(), DEPTH)
        serials = {}
        for serial, event, update in updates:
            tick, _ = maker.apply(event, update)
            if tick is not None:
                found.append(_tick(security_id, serials[tick.event], tick))
            serials[event] = serial
        tick = maker.end_event()
        if tick is not None:
            found.append(_tick(security_id, serials[tick.event], tick))
    return found


def _tick(security_id, serial, tick):
    sides = [
        [(NULL if each.price is None else each.price, *each[1:]) for each in side]
        for side in (tick.bids, tick.asks)
    ]
    return (security_id, serial, int(tick.state), *sides)


def without_doubt(ticks):
    """Ticks by what they show and whether it is stale; those that show nothing new are left out.

    When a book is confirmed depends on when a snapshot comes: there, the two paths differ.
    """
    found, last = [], {}
    for security_id, serial, state, *sides in sorted(ticks, key=lambda tick: tick[:2]):
        shown = (state == State.STALE, *sides)
        if shown != last.get(security_id, (False, [], [])):
            found.append((security_id, serial, *shown))
        last[security_id] = shown
    return found


def compare(folder, version, *, from_the_start=True):
    captured = arbitrated(packets_of(folder))
    columns, ticks = bulk(captured, from_the_start=from_the_start, by_position=version < 15)
    base = columns.day.base
    follower, log = plain(captured, base, from_the_start=from_the_start)
    kind = PositionBook if version < 15 else PriorityBook
    # Books
    for security_id, full in ticks.finals.items():
        book = follower.books.get(security_id) or kind()
        assert (full.state is State.STALE) == (book.state is State.STALE), security_id
        if not log.doubts:
            assert full.state is book.state, security_id
        for side in Side:
            assert full.orders(side) == book.orders(side)
    # Ticks
    expected = without_doubt(ticks.found)
    mine = without_doubt(ticks_of(log, kind))
    assert mine == expected
    if not log.doubts:
        assert sorted(ticks_of(log, kind)) == sorted(ticks.found)
    # Stale spans
    spans = [
        (span.security_id, span.message_serial, span.healed_at)
        for span in columns.spans.spans
        if span.healed_at is None or span.healed_at > span.message_serial
    ]
    closed = sorted(span for span in spans if span[2] is not None)
    known = {span[:2] for span in closed}
    # What begins in the middle is stale without a separate span in the bulk twin.
    mine = sorted(span for span in log.spans if from_the_start or span[:2] in known)
    assert mine == closed
    still = {span[:2] for span in spans if span[2] is None}
    assert still <= set(log.open.items())
    return len(expected), len(spans), log


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_a_day_over_lines_without_faults(tmp_path, version):
    simulated(tmp_path, version)
    ticks, spans, log = compare(tmp_path, version)
    assert ticks > 100
    assert spans == log.doubts == 0


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_a_day_over_bad_lines(tmp_path, version):
    simulated(tmp_path, version, lossy=("A", "B", "snapshot"), duration_ns=8 * 10**9, seed=2)
    ticks, spans, log = compare(tmp_path, version)
    assert ticks > 100
    assert spans > 0
    assert log.heals > 0


@pytest.mark.parametrize(
    ("version", "resets"),
    [
        (16, ("sequence@0.5",)),
        (15, ("channel@0.5",)),
        (9, ("channel@0.4", "sequence@0.7")),
        (16, ("0.3", "sequence@0.6")),
    ],
)
def test_resets_over_bad_lines(tmp_path, version, resets):
    lossy = ("A", "B", "snapshot")
    simulated(tmp_path, version, lossy=lossy, resets=resets, duration_ns=8 * 10**9)
    ticks, spans, _ = compare(tmp_path, version)
    assert ticks > 100
    assert spans > 0


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
@pytest.mark.parametrize("lossy", [(), ("A", "B", "snapshot")])
def test_a_day_joined_in_the_middle(tmp_path, version, lossy):
    simulated(tmp_path, version, lossy=lossy, late_join="0.5", duration_ns=8 * 10**9)
    ticks, _, _ = compare(tmp_path, version, from_the_start=False)
    assert ticks > 20


@pytest.mark.parametrize(
    ("snapshots_after", "expected"),
    [((), State.BUILDING), ((12,), State.VALID), ((12, 12), State.VALID)],
)
def test_6_5_12_building_ends_with_a_snapshot_in_both(snapshots_after, expected):
    """Orders are resent after an EmptyBook; a snapshot as of that packet ends it."""
    recovery = templates.RECOVERY | END
    sent = [
        ("Incremental_A", packet(11, channel_reset())),
        ("Incremental_A", packet(12, empty_book(), order(1, 9, flags=recovery))),
    ]
    for version, number in enumerate(snapshots_after, 2):
        parts = [snapshot(number, 1, bids=1), snapshot_orders(9)]
        sent += [("Snapshot", each) for each in loop(version, parts)]
    decoder = PacketDecoder()
    captured = [
        Captured(10**18 + at, at, stream, decoder.decode(payload))
        for at, (stream, payload) in enumerate(sent)
    ]
    columns, ticks = bulk(captured, from_the_start=True, by_position=False)
    follower, _ = plain(captured, columns.day.base, from_the_start=True)
    assert follower.books[1111].state is expected
    assert ticks.finals[1111].state is expected
    assert ticks.finals[1111].orders(Side.BID) == follower.books[1111].orders(Side.BID)
