"""Settings of a simulation as users write them, and the day planned from them."""

from __future__ import annotations

from datetime import date, time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.clock import HOUR, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model.enums import TradingStatus
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.instruments import SecurityType
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.engine.model.schedule import default_schedule, parse_schedule
from pregao.exchange.simulation.settings import (
    ResetKind,
    RunPoint,
    SimulationSettings,
    moment_ns,
    parse_moment,
    parse_reset,
)
from pregao.exchange.simulation.timetable import plan_day

DAY = date(2026, 5, 21)
CATALOGUE = bundled_catalogue()


def test_moments():
    assert parse_moment("--late-join", "0.5").share == 0.5
    assert parse_moment("--late-join", "10:05:30").time_of_day == time(10, 5, 30)
    for text in ("1", "1.0", "-0.1", "noon", "25:00", "nan", "10:00+03:00", ""):
        with pytest.raises(UsageError, match="--late-join must be a share"):
            parse_moment("--late-join", text)


def test_resets():
    assert parse_reset("0.25").kind == ResetKind.CHANNEL
    assert parse_reset("channel@0.25") == parse_reset("channel@0.25")
    assert parse_reset("sequence@10:00").kind == ResetKind.SEQUENCE
    with pytest.raises(UsageError, match="must be 'channel' or 'sequence'"):
        parse_reset("book@0.5")
    with pytest.raises(UsageError, match="--reset-at"):
        parse_reset("sequence@")


def test_a_time_of_day_outside_of_the_run_is_refused_with_its_bounds():
    midnight = 1_000_000 * SECOND
    start, end = midnight + 9 * HOUR, midnight + 9 * HOUR + 30 * MINUTE
    at = parse_moment("--reset-at", "09:10")
    assert moment_ns("--reset-at", at, midnight, start, end) == start + 10 * MINUTE
    assert moment_ns("--reset-at", RunPoint(share=0.5), midnight, start, end) == start + 15 * MINUTE
    for text in ("08:59:59", "09:30"):
        with pytest.raises(UsageError, match=r"from 09:00:00 to 09:30:00"):
            moment_ns("--reset-at", parse_moment("--reset-at", text), midnight, start, end)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instruments": 0}, "--instruments must be from 1 to 100000, was 0"),
        ({"duration_ns": 10}, "--duration"),
        ({"duration_ns": 25 * HOUR}, "--duration"),
        ({"schema_version": 11}, "--schema-version must be one of 7, 8, 9, 10, 15, 16, 17, was 11"),
        ({"rate": 0.0}, "--rate must be above 0 and at most 1e+06 orders per second, was 0"),
        ({"rate": -3.0}, "orders per second, was -3"),
        ({"rate": float("nan")}, "orders per second, was nan"),
        ({"messages": 0}, "--messages must be at least 1, was 0"),
        ({"truth_books": 0}, "--truth-books must be from 1 to 10000, was 0"),
    ],
)
def test_settings_out_of_range_name_their_option(changes, words):
    with pytest.raises(UsageError) as refused:
        SimulationSettings(profile="equities", out=Path("unused"), **changes)
    assert words in str(refused.value)


@given(st.integers(1, 24 * 3600), st.integers(1, len(CATALOGUE)))
def test_a_day_fits_its_duration_and_keeps_its_order(seconds, count):
    chosen = CATALOGUE[:count]
    schedule = default_schedule(chosen)
    day = plan_day(schedule, chosen, DAY, seconds * SECOND)
    assert day.end_ns - day.start_ns == seconds * SECOND
    times = [when for when, _ in day.commands]
    assert times == sorted(times)
    assert day.start_ns < times[0]
    assert times[-1] < day.end_ns
    planned = schedule.commands(dict.fromkeys(x.security_group for x in chosen), DAY)
    for (_, command), (_, meant) in zip(day.commands, planned, strict=True):
        assert (command.group, command.phase, command.session) == (
            meant.group,
            meant.phase,
            meant.session,
        )
        if command.open_time_ns is not None:
            assert day.start_ns < command.open_time_ns < day.end_ns
    # The spans cover the run without gaps.
    assert day.phases[0][0] == day.start_ns
    assert day.phases[-1][1] == day.end_ns
    for before, after in pairwise(day.phases):
        assert before[1] == after[0]
    kinds = [kind for start, end, kind in day.phases if end > start]
    assert {"closed", "auction", "open"} == set(kinds)


def test_an_auction_is_estimated_to_end_when_its_group_opens():
    chosen = [x for x in CATALOGUE if x.security_group == "01"]
    day = plan_day(default_schedule(chosen), chosen, DAY, 30 * MINUTE)
    timed = {command.phase: when for when, command in reversed(day.commands)}
    ends = [c.open_time_ns for _, c in day.commands if c.phase == TradingStatus.RESERVED]
    assert ends[0] == timed[TradingStatus.OPEN]
    assert isinstance(day.commands[0][1], SetGroupPhase)


def test_a_schedule_that_never_opens_or_leaves_a_group_out_is_refused():
    chosen = [x for x in CATALOGUE if x.security_type == SecurityType.CS]
    closed = {"schedule": {"default": [{"time": "09:00", "phase": "CLOSE"}]}}
    with pytest.raises(UsageError, match="no traded group is ever open"):
        plan_day(parse_schedule(closed, "s"), chosen, DAY, MINUTE)
    other = {"schedule": {"ZZ": [{"time": "09:00", "phase": "OPEN"}]}}
    with pytest.raises(UsageError, match="no entries for security group '01'"):
        plan_day(parse_schedule(other, "s"), chosen, DAY, MINUTE)
    operation = {"time": "10:00", "command": "halt", "symbol": "PETR4"}
    open_day = {"schedule": {"default": [{"time": "09:00", "phase": "OPEN"}]}}
    with pytest.raises(UsageError, match="operations are commands of a running exchange"):
        plan_day(parse_schedule(open_day | {"operation": [operation]}, "s"), chosen, DAY, MINUTE)
