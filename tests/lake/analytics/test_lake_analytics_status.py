"""Phases and states over time: what the rules of `pregao.umdf.phases` say, from when until when."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.lake.analytics.timeline import UNTOLD, GroupMember, StatusMessage, timeline
from pregao.umdf.phases import GroupKey, Phases, StatisticsReset
from tests.lake.analytics.test_lake_analytics_corrections import lake_of
from tests.lake.analytics.test_lake_analytics_examples import Tape
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import analysed, messages, rows, truth_lines

CODES = [
    "PAUSE", "CLOSE", "OPEN", "FORBIDDEN", "RESERVED", "FINAL_CLOSING_CALL", None, "77",
    "UNKNOWN_OR_INVALID",
]  # fmt: skip
EVENTS = [
    None,
    "TRADING_SESSION_CHANGE",
    "SECURITY_STATUS_CHANGE",
    "SECURITY_REJOINS_SECURITY_GROUP_STATUS",
]
GROUPS = {1: "G", 2: "G", 3: "H", 4: None}


@st.composite
def status_messages(draw):
    of_group = draw(st.booleans())
    return {
        "security_group": draw(st.sampled_from(["G", "H"])) if of_group else None,
        "security_id": None if of_group else draw(st.sampled_from(sorted(GROUPS))),
        "code": draw(st.sampled_from(CODES)),
        "trading_event": draw(st.sampled_from(EVENTS)),
        "trading_session_id": draw(st.sampled_from(["REGULAR", "OTHER"])),
        "auction_end_ns": draw(st.none() | st.just(5)),
    }


def numbered(several):
    return [
        StatusMessage(**one, time_ns=100 * n, sending_time_ns=100 * n, event_key=n, event=n)
        for n, one in enumerate(several, 1)
    ]


def holding(lines, subject, name, time_ns):
    """The row that held for a group or instrument at a time, the later one if two begin then."""
    held = [
        line
        for line in lines
        if line[name] == subject
        and (name == "security_id" or line["security_id"] is None)
        and line["from_ns"] <= time_ns
        and (line["until_ns"] is None or time_ns < line["until_ns"])
    ]
    assert len(held) <= 1
    return held[0] if held else None


@settings(max_examples=150, deadline=None)
@given(st.lists(status_messages(), max_size=12))
def test_the_timeline_follows_the_rules_at_every_time(several):
    several = numbered(several)
    lines = timeline([GroupMember(one, group) for one, group in GROUPS.items()], several)
    phases = Phases()
    for security_id, group in GROUPS.items():
        if group is not None:
            phases.define(security_id, GroupKey(group))
    for message in several:
        if message.security_id is None:
            key = GroupKey(message.security_group)
            events = phases.group_phase(key, message.code, message.trading_event)
        else:
            events = phases.security_status(
                message.security_id, message.code, message.trading_event
            )
        for security_id, group in GROUPS.items():
            line = holding(lines, security_id, "security_id", message.time_ns)
            if line is None:
                assert phases.status(security_id).name == "UNKNOWN"
                continue
            assert line["status"] == phases.status(security_id).name
            assert line["own_status"] == phases.is_separate(security_id)
            assert line["trades_continuously"] == phases.trades_continuously(security_id)
            reset = any(
                security_id in event.security_ids
                for event in events
                if isinstance(event, StatisticsReset)
            )
            assert (line["new_session"] and line["from_ns"] == message.time_ns) == reset
            if group is not None and (
                whole := holding(lines, group, "security_group", message.time_ns)
            ):
                assert whole["status"] == whole["phase"] == phases.phase(GroupKey(group)).name
                assert line["phase"] == whole["phase"]


def test_without_a_loss_a_snapshot_counts_only_for_subjects_without_updates():
    def phase(code, n, **more):
        return StatusMessage(
            "G", None, code, None, None, None, 100 * n, 100 * n, event_key=n, **more
        )

    def state(code, n, **more):
        event = "SECURITY_STATUS_CHANGE"
        return StatusMessage(
            None, 1, code, event, None, None, 100 * n, 100 * n, event_key=n, **more
        )

    lines = timeline(
        [GroupMember(1, "G"), GroupMember(2, "G")],
        [
            phase("OPEN", 2),
            phase("CLOSE", 1, snapshot=True),
            phase("PAUSE", 3, snapshot=True),
            state("RESERVED", 3, snapshot=True),
            state("PAUSE", 4),
            state("CLOSE", 5, snapshot=True),
        ],
    )
    names = ("security_id", "status", "from_ns", "until_ns", "source")
    found = [tuple(line[name] for name in names) for line in lines]
    assert found == [
        (None, "CLOSE", 100, 200, "snapshot phase"),
        (1, "CLOSE", 100, 200, "snapshot phase"),
        (2, "CLOSE", 100, 200, "snapshot phase"),
        (None, "OPEN", 200, None, "phase"),
        (1, "OPEN", 200, 300, "phase"),
        (2, "OPEN", 200, None, "phase"),
        (1, "RESERVED", 300, 400, "snapshot state"),
        (1, "PAUSE", 400, None, "state"),
    ]


def test_000_7_4_and_14_4_a_snapshot_counts_once_where_packets_were_lost_before_it():
    def state(code, key, **more):
        event = "SECURITY_STATUS_CHANGE"
        return StatusMessage(
            None, 1, code, event, None, None, 10 * key, 10 * key, event_key=key, **more
        )

    shown = {"snapshot": True, "lost_before": 15}
    lines = timeline(
        [],
        [
            state("OPEN", 10),
            state("RESERVED", 12, snapshot=True),
            state("PAUSE", 20, **shown),
            state("CLOSE", 30, **shown),
            state("FORBIDDEN", 40),
            state("OPEN", 50, **shown),
            state("OPEN", 60, snapshot=True, lost_before=55),
        ],
    )
    assert [(line["status"], line["from_ns"], line["source"]) for line in lines] == [
        ("OPEN", 100, "state"),
        ("PAUSE", 200, "snapshot state"),
        ("FORBIDDEN", 400, "state"),
        ("OPEN", 600, "snapshot state"),
    ]


def test_000_7_4_lost_phases_and_states_are_taken_from_the_next_snapshots(tmp_path):
    first, second = 1, 2
    changed = "SECURITY_STATUS_CHANGE"
    group = {"security_group": "G"}
    tape = Tape()

    def loop(number, phase, **state):
        tape.snapshot(number, "umdf_security_group_phase_10", **group, trading_session_sub_id=phase)
        for security_id in (first, second):
            tape.header(number, security_id)
        tape.snapshot(number, "umdf_security_status_3", first, **state)

    tape.event()
    tape.send("umdf_security_group_phase_10", **group, trading_session_sub_id="OPEN")
    reserved = {"security_trading_status": "RESERVED", "security_trading_event": changed}
    tape.send("umdf_security_status_3", first, **reserved)
    # Without a loss before it, a snapshot repeats what is known, or is older.
    loop(1, "CLOSE", security_trading_status="FORBIDDEN", security_trading_event=changed)
    tape.lose()
    tape.event()
    tape.trade(second, 10, "5.00", 100)
    loop(2, "PAUSE", security_trading_event="SECURITY_REJOINS_SECURITY_GROUP_STATUS")
    lake = lake_of(tmp_path, tape, "status", security_group="G")
    found = {}
    for row in sorted(rows(lake, "status"), key=lambda row: row["from_ns"]):
        own = (row["status"], row["own_status"], row["source"])
        found.setdefault(row["security_id"], []).append(own)
    assert found == {
        None: [("OPEN", False, "phase"), ("PAUSE", False, "snapshot phase")],
        first: [
            ("OPEN", False, "phase"), ("RESERVED", True, "state"),
            ("RESERVED", True, "snapshot phase"), ("PAUSE", False, "snapshot state"),
        ],
        second: [("OPEN", False, "phase"), ("PAUSE", False, "snapshot phase")],
    }  # fmt: skip


def test_14_without_a_definition_a_rejoined_state_lasts_until_a_phase_changes():
    """The group of the instrument is unknown: a phase that changes may be that of its group."""
    steps = [
        ({"security_group": "G"}, "PAUSE", None),
        ({"security_id": 1}, "RESERVED", "SECURITY_STATUS_CHANGE"),
        ({"security_id": 1}, "OPEN", "SECURITY_REJOINS_SECURITY_GROUP_STATUS"),
        ({"security_group": "H"}, "OPEN", None),  # agrees with it
        ({"security_group": "H"}, "CLOSE", None),
    ]
    neither = {"security_group": None, "security_id": None}
    rest = {"trading_session_id": "REGULAR", "auction_end_ns": None}
    several = numbered(
        {**neither, **subject, "code": code, "trading_event": event, **rest}
        for subject, code, event in steps
    )
    own = [line for line in timeline([], several) if line["security_id"] == 1]
    assert [(line["status"], line["from_ns"], line["until_ns"]) for line in own] == [
        ("RESERVED", 200, 300), ("OPEN", 300, 500), ("UNKNOWN", 500, None),
    ]  # fmt: skip
    assert [line["trades_continuously"] for line in own] == [False, True, False]


def test_an_instrument_has_a_state_only_while_it_is_listed():
    phases = [
        StatusMessage("G", None, code, None, None, None, 100 * n, 100 * n, event_key=n)
        for n, code in enumerate(["CLOSE", "OPEN", "PAUSE"], 1)
    ]
    lines = timeline([GroupMember(1, "G", 2, 150, 3, 250)], phases)
    own = [
        (line["status"], line["from_ns"], line["until_ns"]) for line in lines if line["security_id"]
    ]
    assert own == [("CLOSE", 150, 200), ("OPEN", 200, 250)]


@pytest.fixture(scope="module")
def lake_and_truth():
    return analysed(**SETTINGS)


def test_at_every_moment_that_the_exchange_wrote_down_its_state_held(lake_and_truth):
    lake, truth = lake_and_truth
    status = rows(lake, "status")
    books = truth_lines(truth, "books.jsonl")
    assert len(books) > 50
    for book in books:
        held = holding(status, book["security_id"], "security_id", book["time_ns"])
        assert held["status"].replace("PRE_CLOSE", "FORBIDDEN") == book["status"], book["symbol"]
        assert held["symbol"] == book["symbol"]


def test_states_follow_one_another_without_a_gap(lake_and_truth):
    status = rows(lake_and_truth[0], "status")
    lines = {}
    for row in status:
        lines.setdefault((row["security_group"], row["security_id"]), []).append(row)
    for own in lines.values():
        for row, after in pairwise(own):
            assert row["until_ns"] == after["from_ns"]
        assert own[-1]["until_ns"] is None or own[0]["symbol"].startswith("N")
    separate = [row for row in status if row["own_status"]]
    assert {row["status"] for row in separate} & {"RESERVED", "PAUSE"}


def test_every_session_that_begins_is_marked(lake_and_truth):
    lake, _ = lake_and_truth
    starts = [
        m for m in messages(lake, 10) if m["security_trading_event"] == "TRADING_SESSION_CHANGE"
    ]
    groups = [row for row in rows(lake, "status", security_id=None) if row["new_session"]]
    assert [(row["security_group"], row["event"]) for row in groups] == [
        (m["security_group"], m["event"]) for m in starts
    ]


def test_a_capture_that_begins_in_the_day_takes_states_from_snapshots():
    lake, truth = analysed(
        ("session_stats", "status"), seed=5, instruments=3, duration="40s", late_join="0.6"
    )
    status = rows(lake, "status")
    first = [row for row in status if row["source"].startswith("snapshot")]
    assert {row["security_id"] for row in first} > {None}
    assert all(row["event"] is None and row["sequence_number"] is None for row in first)
    for book in truth_lines(truth, "books.jsonl"):
        if book["final"]:
            held = holding(status, book["security_id"], "security_id", book["time_ns"])
            assert held["status"].replace("PRE_CLOSE", "FORBIDDEN") == book["status"]


def test_002_6_1_a_snapshot_is_ordered_by_its_last_message():
    """A state that a snapshot shows is older than a message that it does not include."""

    def state(code, event, sent, key, **more):
        return StatusMessage(None, 1, code, event, None, None, sent, sent, event_key=key, **more)

    phase = StatusMessage("G", None, "OPEN", None, None, None, 1, 1, event_key=10)
    lines = timeline(
        [GroupMember(1, "G")],
        [
            phase,
            state("OPEN", UNTOLD, 3, 30),
            state("PAUSE", "SECURITY_STATUS_CHANGE", 4, 29, snapshot=True),
        ],
    )
    held = [(row["status"], row["own_status"]) for row in lines if row["security_id"] == 1]
    assert held == [("OPEN", False), ("PAUSE", True), ("OPEN", False)]


def test_002_15_6_a_state_that_is_its_groups_rejoins():
    """The legacy feed does not state why a state is published."""

    def one(subject, code, event):
        own = {"security_group": None, "security_id": None} | subject
        rest = {"trading_session_id": "REGULAR", "auction_end_ns": None}
        return {**own, "code": code, "trading_event": event, **rest}

    group, own = {"security_group": "G"}, {"security_id": 1}
    lines = timeline(
        [GroupMember(1, "G"), GroupMember(2, "G")],
        numbered(
            [
                one(group, "OPEN", None),
                one(own, "OPEN", UNTOLD),  # separates, though the number is the same
                one(group, "PAUSE", None),
                one(own, "RESERVED", UNTOLD),  # another own state
                one(own, "PAUSE", UNTOLD),  # what its group does: it rejoins
                one(group, "CLOSE", None),
            ]
        ),
    )
    held = [(row["status"], row["own_status"]) for row in lines if row["security_id"] == 1]
    assert held == [
        ("OPEN", False), ("OPEN", True), ("OPEN", True), ("RESERVED", True), ("PAUSE", False),
        ("CLOSE", False),
    ]  # fmt: skip


def test_messages_without_a_turn_or_a_subject_have_no_effect():
    """In a packet without a number, or with a block too short to say what it is about."""
    several = numbered(
        {"security_group": group, "security_id": security, "code": "OPEN", "trading_event": None,
         "trading_session_id": "REGULAR", "auction_end_ns": None}
        for group, security in (("G", None), (None, None), ("G", None))
    )  # fmt: skip
    several[2] = replace(several[2], event_key=None, code="PAUSE")
    lines = timeline([GroupMember(1, "G")], several)
    assert [(line["security_id"], line["status"], line["at"]) for line in lines] == [
        (None, "OPEN", 1), (1, "OPEN", 1),
    ]  # fmt: skip
