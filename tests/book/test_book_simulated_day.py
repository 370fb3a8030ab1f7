"""Simulated days, over sound and bad lines: the books end equal to the exchange's own."""

import json

import pytest

from pregao.book.levels import LevelsBook
from pregao.book.replay import BookKind, Replay
from pregao.book.rows import rows_of
from pregao.book.updates import Side
from pregao.clock import SECOND
from pregao.exchange.simulation import (
    FaultRates,
    Settings,
    Simulation,
    parse_moment,
    parse_reset,
)
from pregao.umdf.sequencing import Place
from tests.book.feed_follower import Follower, is_sound, lines_of

CHANNEL = 51
LOSSY = FaultRates(loss=0.03, reorder=0.05, duplicate=0.05)


def simulated(out, version, **changes):
    chosen = {"duration_ns": 4 * SECOND, "rate": 250.0, "instruments": 10, "books": 6} | changes
    Simulation(Settings(profile="equities", out=out, schema_version=version, **chosen)).run()
    truth = (out / "truth/books.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in truth]


def followed(out, version, truth, *, from_start):
    """Follow the captures and compare every book of the truth when its packet has been taken."""
    follower = Follower(version, from_start=from_start)
    expected = {}
    for line in truth:
        place = Place(line["sequence_version"], line["sequence_number"])
        expected.setdefault(place, []).append(line)
    compared = 0

    def compare(place):
        nonlocal compared
        for line in expected.pop(place, ()):
            book = follower.books.get(line["security_id"])
            stale = line["security_id"] in follower.gaps.stale
            if book is None or stale or not is_sound(book):
                assert stale or line["bids"] == line["asks"] == []
                continue
            if book.last_rpt_seq and line["rpt_seq"] and book.last_rpt_seq > line["rpt_seq"]:
                continue  # a snapshot was ahead of the stream
            assert lines_of(book) == [line["bids"], line["asks"]]
            compared += len(line["bids"]) + len(line["asks"])

    follower.watch = compare
    follower.follow(out, CHANNEL)
    return follower, compared


def check_the_end(follower, truth):
    """All books are sound and equal the truth; the kernels and the levels agree with them."""
    assert follower.gaps.stale == {}
    orders = 0
    for line in truth:
        if line["final"] and (line["bids"] or line["asks"]):
            assert lines_of(follower.books[line["security_id"]]) == [line["bids"], line["asks"]]
            orders += len(line["bids"]) + len(line["asks"])
    assert orders > 50
    kind = BookKind.POSITION if follower.kind.__name__ == "PositionBook" else BookKind.PRIORITY
    rows = sorted(
        ((security_id, at, update) for at, (security_id, update) in enumerate(follower.updates)),
        key=lambda row: row[0],
    )
    ends = [at for at, row in enumerate(rows) if at + 1 == len(rows) or rows[at + 1][0] != row[0]]
    replayed = Replay(kind, 5, room=16).run(rows_of(rows), dump_at=ends)
    assert len(replayed.ticks) > 100
    for end, full in zip(ends, replayed.books, strict=True):
        book = follower.books[rows[end][0]]
        assert full.state is book.state
        assert [full.orders(side) for side in Side] == [book.orders(side) for side in Side]
    assert len(replayed.faults) == follower.opened


@pytest.mark.parametrize("version", [7, 9, 10, 15, 16])
def test_over_sound_lines_every_version_gives_the_books_of_the_exchange(tmp_path, version):
    truth = simulated(tmp_path, version)
    follower, compared = followed(tmp_path, version, truth, from_start=True)
    assert (follower.lost, follower.opened) == (0, 0)
    assert compared > 300
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
    faults = dict.fromkeys(feeds, LOSSY)
    for name in ("A", "B", "snapshot", "definition"):
        faults.setdefault(name, FaultRates())
    truth = simulated(
        tmp_path, version, faults=faults, resets=tuple(parse_reset(text) for text in resets)
    )
    follower, compared = followed(tmp_path, version, truth, from_start=True)
    if "B" in feeds:
        assert follower.lost > 0
        assert follower.opened > 0
        assert follower.healed >= follower.opened
    else:
        assert (follower.lost, follower.opened) == (0, 0)  # B had what A had not
    assert compared > 200
    check_the_end(follower, truth)


@pytest.mark.parametrize(("version", "lossy"), [(16, False), (16, True), (10, True)])
def test_who_joins_in_the_middle_of_the_day_has_the_same_books(tmp_path, version, lossy):
    faults = dict.fromkeys(("A", "B", "snapshot", "definition"), FaultRates())
    if lossy:
        faults |= dict.fromkeys(("A", "B"), LOSSY)
    truth = simulated(
        tmp_path, version, faults=faults, late_join=parse_moment("--late-join", "0.5")
    )
    follower, _ = followed(tmp_path, version, truth, from_start=False)
    assert follower.joining is None
    assert follower.refusals == {"the snapshot loop is not complete"} or not follower.refusals
    check_the_end(follower, truth)


def test_levels_without_orders_follow_a_day_of_version_16(tmp_path):
    """The sizes and prices that messages tell of the past are enough."""
    truth = simulated(tmp_path, 16)
    follower, _ = followed(tmp_path, 16, truth, from_start=True)
    levels = {security_id: LevelsBook() for security_id in follower.books}
    for security_id, update in follower.updates:
        assert levels[security_id].apply(update) is None
    for security_id, book in follower.books.items():
        for side in Side:
            assert levels[security_id].levels(side) == book.levels(side)
