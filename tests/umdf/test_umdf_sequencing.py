"""The audit of sequence numbers, held against sets of the numbers seen."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf.bulk_decoder import walk
from pregao.umdf.sequencing import version_distance
from pregao.umdf.survey.rejects import SequenceAudit
from tests.umdf.survey_support import HEARTBEAT, ORDER, RESET, block_of, payload


class PlainAudit:
    """The account with sets, as a reference for the kernel."""

    def __init__(self):
        self.runs = {}
        self.newest = {}
        self.heartbeats = {}

    def add(self, line, channel, version, number, reset):
        track = line, channel
        self.heartbeats.setdefault(track, 0)
        if number == 0:
            self.heartbeats[track] += 1
            return
        run = self.runs.get((*track, version))
        if run is None:
            run = self.runs[*track, version] = {
                "seen": set(), "packets": 0, "duplicates": 0, "late": 0, "ended": False,
                "first": number, "last": number - 1,
            }  # fmt: skip
            newest = self.newest.get(track)
            if newest is None:
                self.newest[track] = version
            elif version_distance(newest, version) > 0:
                self.newest[track] = version
                run["first"], run["last"] = 1, 0
        run["packets"] += 1
        if number in run["seen"]:
            run["duplicates"] += 1
        elif number <= run["last"]:
            run["late"] += 1
        run["seen"].add(number)
        run["first"] = min(run["first"], number)
        run["last"] = max(run["last"], number)
        run["ended"] |= reset

    def missing(self, key):
        run = self.runs[key]
        return sorted(set(range(run["first"], run["last"] + 1)) - run["seen"])


def audited(packets, *, pieces=1, audit=None):
    """Packets as (line, channel, version, number, reset), in as many blocks."""
    audit = audit or SequenceAudit()
    size = max(1, -(-len(packets) // pieces))
    for start in range(0, len(packets), size):
        part = packets[start : start + size]
        block = block_of(
            [
                payload(number, (RESET,) if reset else (HEARTBEAT,), channel=c, version=v)
                for _, c, v, number, reset in part
            ]
        )
        lines = np.array([line for line, *_ in part], np.int32)
        audit.add(lines, block.time_ns, walk(block.buffer, block.offset, block.length))
    return audit


PACKETS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([7, 72]),
        st.sampled_from([1, 2, 3, 32768, 32769, 65534]),
        st.integers(0, 30),
        st.booleans(),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(PACKETS, st.integers(1, 3))
def test_any_packets_are_accounted_for_as_with_sets(packets, pieces):
    audit, plain = audited(packets, pieces=pieces), PlainAudit()
    for packet in packets:
        plain.add(*packet)
    assert audit.heartbeats() == plain.heartbeats
    runs = audit.runs()
    assert [(r.line, r.channel, r.sequence_version) for r in runs] == list(plain.runs)
    for run in runs:
        expected = plain.runs[run.line, run.channel, run.sequence_version]
        missing = plain.missing((run.line, run.channel, run.sequence_version))
        assert (run.first, run.last, run.packets) == (
            expected["first"],
            expected["last"],
            expected["packets"],
        )
        assert (run.duplicates, run.late) == (expected["duplicates"], expected["late"])
        assert (run.ended, run.missing) == (expected["ended"], len(missing))
        gaps = [g for g in audit.gaps(1000) if g[:3] == run[:3]]
        found = sorted(n for g in gaps for n in range(g.first, g.last + 1))
        assert found == missing
        assert len(gaps) == run.gaps
    assert audit.untracked == 0


def test_a_gap_is_reported_with_the_time_of_the_packet_after_it():
    audit = audited([(0, 7, 1, n, False) for n in (5, 6, 10, 8)])
    (run,) = audit.runs()
    assert (run.first, run.last, run.missing, run.gaps, run.late) == (5, 10, 2, 2, 1)
    assert [(g.first, g.last, g.time_ns) for g in audit.gaps()] == [(7, 7, 3), (9, 9, 3)]


def test_a_loop_is_complete_from_1_to_the_sequence_reset():
    loop = [(0, 7, 1, 4, False), (0, 7, 1, 5, True)]
    loop += [(0, 7, 2, 1, False), (0, 7, 2, 2, True), (0, 7, 3, 2, True)]
    runs = audited(loop).runs()
    assert [run.whole for run in runs] == [False, True, False]
    assert [run.missing for run in runs] == [0, 0, 1]  # only the first may be joined midway


def test_versions_wrap_around_after_65534_at_any_distance():
    """32766 versions on from 40000 is 7232: it follows, and its packets 1 to 4 are missing."""
    runs = audited([(0, 7, 40_000, 1, False), (0, 7, 7_232, 5, False)]).runs()
    assert [run.missing for run in runs] == [0, 4]
    for older in (7_233, 7_234):  # half-way round, and where the shorter way round is back
        runs = audited([(0, 7, 40_000, 1, False), (0, 7, older, 5, False)]).runs()
        assert [run.missing for run in runs] == [0, 0]


def test_a_version_that_comes_round_again_is_another_turn():
    packets = [(0, 7, 1, 1, True)]
    packets += [(1, c, 2 * v, 1, True) for c in range(2) for v in range(1, 16400)]
    packets += [(0, 7, 1, 1, True)]
    run = next(r for r in audited(packets).runs() if r.line == 0)
    assert (run.turns, run.duplicates, run.packets) == (2, 0, 2)


def test_the_history_has_a_limit_and_excess_is_counted():
    packets = [(0, 7, v, 1, False) for v in range(1, 11)]
    audit = audited(packets, audit=SequenceAudit(max_runs=5))
    assert len(audit.runs()) == 4  # and one row for the line and channel
    assert audit.untracked == 6
    gappy = audited([(0, 7, 1, 2 * n, False) for n in range(1, 12)], audit=SequenceAudit(64, 3))
    (run,) = gappy.runs()
    assert (run.missing, run.gaps, len(gappy.gaps())) == (10, 10, 3)


def test_packets_without_messages_have_no_part_in_it():
    block = block_of([payload(5, ()), payload(9, (ORDER,))[:-1]])
    audit = SequenceAudit()
    walked = walk(block.buffer, block.offset, block.length)
    audit.add(np.zeros(2, np.int32), block.time_ns, walked)
    assert audit.runs() == []
