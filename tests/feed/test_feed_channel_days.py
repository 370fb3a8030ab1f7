"""Small days over lines as bad as they get: no book that is called valid or empty is ever wrong.

Each day has its own mix of faults, drawn from its seed; a failure names the seed. The suite runs
some of them. `PREGAO_CHANNEL_DAYS=1000` runs that many, `PREGAO_CHANNEL_SEED=17` that one alone.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from pregao.feed.channel.channel import Channel
from pregao.umdf.layout import PACKET_HEADER_SIZE
from tests.feed.channel_days import (
    MARKETS,
    Checked,
    Faults,
    arrivals,
    check_the_end,
    comparable_state,
    market,
    mix,
    other_site,
    settings_of,
)

DAYS = int(os.environ.get("PREGAO_CHANNEL_DAYS", "50"))
ONE = os.environ.get("PREGAO_CHANNEL_SEED")
PARTS = 3


def followed(seed):
    """Follow the day of a seed; return the faults applied to it."""
    day, expected = market(seed % MARKETS)
    faults, settings = mix(seed)
    found, counts, joined_ns = arrivals(day, faults, seed)
    checked = Checked(day, settings)
    checked.follow(found, joined_ns, slow=faults.slow)
    check_the_end(checked)
    assert comparable_state(checked.channel) == expected
    return counts, checked


def seeds(part):
    """The seeds of a part of the days; those of a market are together."""
    if ONE is not None:
        return [int(ONE)] if part == 0 else []
    return [seed for seed in range(DAYS) if seed % MARKETS % PARTS == part]


@pytest.mark.parametrize("part", range(PARTS))
def test_over_bad_days_no_book_called_valid_or_empty_is_wrong_and_all_end_right(part):
    total = Counter()
    for seed in seeds(part):
        try:
            counts, checked = followed(seed)
        except BaseException as error:
            error.add_note(f"replay it alone with PREGAO_CHANNEL_SEED={seed}")
            raise
        total += counts.lost
        total["days"] += 1
        for name in ("both", "reordered", "duplicated", "torn", "crashes"):
            total[name] += getattr(counts, name)
        for name in (
            "gaps",
            "lost_packets",
            "stale",
            "healed",
            "overflows",
            "outages",
            "events_missed",
        ):
            total[f"seen {name}"] += getattr(checked.channel.counters, name)
        total["compared"] += checked.compared
        total["untrusted"] += checked.untrusted
    if ONE is not None or DAYS < 120:
        return
    # The faults were there, they were noticed, and many books were trusted all the same.
    for name, least in (
        ("A", 20), ("B", 20), ("both", 20), ("snapshot", 2), ("definition", 2),
        ("reordered", 10), ("duplicated", 10), ("torn", 1), ("seen gaps", 3), ("seen stale", 3),
        ("seen healed", 3), ("seen overflows", 1), ("seen events_missed", 1),
    ):  # fmt: skip
        assert total[name] >= least * total["days"] / 4, name
    assert total["compared"] > total["untrusted"] / 2


@pytest.mark.parametrize("join", [0.0, 0.2, 0.5])
def test_without_faults_one_complete_loop_confirms_everything(join):
    day, expected = market(0)
    found, _, joined_ns = arrivals(day, Faults(join=join), 1)
    checked = Checked(day, settings_of())
    seen = []
    take = checked.take
    checked.take = lambda: seen.extend(take())
    checked.follow(found, joined_ns)
    kinds = [type(each).__name__ for each in seen]
    later = kinds[kinds.index("Synchronized") :]
    assert not {"GapFound", "BookUnconfirmed", "BookStale", "ChannelDown"} & set(later)
    counters = checked.channel.counters
    loops = 1 if join else 0  # from the first packet on, the ChannelReset and the list are enough
    assert (counters.gaps, counters.snapshot_loops, counters.definition_loops) == (0, loops, loops)
    assert comparable_state(checked.channel) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_site_that_dies_is_left_for_the_other_and_no_trusted_book_is_wrong_on_the_way(seed):
    day, expected = market(seed)
    other = other_site(day)
    draw = random.Random(seed)
    loss = draw.choice((0.0, 0.1))
    faults = Faults(loss={"A": loss, "B": loss}, join=draw.random() * 0.2)
    first, _, joined_ns = arrivals(day, faults, seed)
    second, _, _ = arrivals(other, Faults(loss={"A": loss}, join=faults.join), seed)
    # The first site dies for good while the day runs; the other one has a single feed.
    dies_ns = day.start_ns + int((0.2 + 0.2 * draw.random()) * (day.end_ns - day.start_ns))
    found = [each for each in first if each[0] < dies_ns]
    found += [(*each[:3], "C", each[4]) for each in second if each[3] == "A"]
    checked = Checked(day, settings_of(backup=("C",)), other)
    checked.follow(sorted(found, key=lambda each: each[0]), joined_ns)
    assert checked.channel.site == ("C",)
    assert checked.events["FailedOver"] == checked.channel.counters.failovers == 1
    assert checked.compared > 500
    check_the_end(checked)
    assert comparable_state(checked.channel) == expected


@pytest.mark.parametrize("seed", range(5))
def test_packets_with_wrong_bytes_never_stop_the_channel(seed):
    """Their content may be wrong undetectably; it is accepted or refused, without an exception."""
    day, _ = market(seed)
    draw = random.Random(seed)
    channel = Channel(settings_of())
    channel.start(day.start_ns)
    wrong = 0
    for time, stream, payload in day.sent:
        changed = bytearray(payload)
        if draw.random() < 0.5:
            wrong += 1
            for _ in range(draw.randint(1, 6)):
                at = draw.randrange(PACKET_HEADER_SIZE if draw.random() < 0.9 else 0, len(changed))
                changed[at] = draw.choice((0, 255, draw.randrange(256), changed[at] ^ 1))
        channel.receive(stream, "A", bytes(changed), time)
        channel.tick(time)
        for security_id in channel.security_ids:
            assert channel.book(security_id).reason
        channel.take_events()
    assert wrong > 300
    assert channel.counters.undecoded_messages > 0
    assert channel.counters.bad_packets > 0
