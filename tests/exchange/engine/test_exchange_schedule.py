"""The day's schedule: times in order, errors named, and a complete day on the engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from pregao.clock import HOUR, MINUTE, parse_ns
from pregao.errors import UsageError
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.enums import TradingSession, TradingStatus
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.schedule import (
    CASH_DAY,
    DERIVATIVES_DAY,
    FORWARD_DAY,
    OPTIONS_DAY,
    default_schedule,
    load_schedule,
    parse_schedule,
)
from tests.exchange.floor import DAY


def day(*rows: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"schedule": {"default": [{"time": t, "phase": p} for t, p in rows]}, **more}


def test_a_schedule_is_read_per_group_with_a_default():
    document = day(("10:00", "OPEN"), ("17:00:30", "CLOSE"))
    document["schedule"]["XX"] = [
        {"time": "18:00", "phase": "PRE_OPEN", "session": "NON_REGULAR", "new_session": True}
    ]
    schedule = parse_schedule(document, "day.toml")
    assert [(e.time_ns, e.phase) for e in schedule.entries("ANY")] == [
        (10 * HOUR, TradingStatus.OPEN),
        (17 * HOUR + 30_000_000_000, TradingStatus.CLOSE),
    ]
    (entry,) = schedule.entries("XX")
    assert entry.phase == TradingStatus.RESERVED
    assert entry.session == TradingSession.NON_REGULAR
    assert entry.new_session


def test_commands_are_in_order_of_time_and_state_an_auctions_end():
    document = day(("09:45", "RESERVED"), ("10:00", "OPEN"))
    document["schedule"]["YY"] = [{"time": "09:50", "phase": "OPEN"}]
    commands = parse_schedule(document, "day.toml").commands(["XX", "YY"], DAY)
    assert [(when, command.group, command.phase) for when, command in commands] == [
        (parse_ns("2026-05-21T12:45:00"), "XX", TradingStatus.RESERVED),
        (parse_ns("2026-05-21T12:50:00"), "YY", TradingStatus.OPEN),
        (parse_ns("2026-05-21T13:00:00"), "XX", TradingStatus.OPEN),
    ]
    assert commands[0][1].open_time_ns == parse_ns("2026-05-21T13:00:00")
    assert commands[1][1].open_time_ns is None


def test_another_timezone_moves_the_day():
    schedule = parse_schedule(day(("10:00", "OPEN"), timezone=0), "day.toml")
    assert schedule.commands(["XX"], DAY)[0][0] == parse_ns("2026-05-21T10:00:00")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (day(("10:00", "OPEN"), ("09:59", "CLOSE")), "default, entry 2: times must increase"),
        (day(("10:00", "OPEN"), ("10:00", "CLOSE")), "entry 2: times must increase"),
        (day(("25:00", "OPEN")), "entry 1, field time: must be a time of day"),
        (day(("10h", "OPEN")), "entry 1, field time"),
        (day(("10:00", "LUNCH")), "entry 1, field phase: must be one of"),
        (day(("10:00", "UNKNOWN_OR_INVALID")), "field phase"),
        ({"schedule": {"XX": []}}, "group XX must have a list"),
        ({"schedule": {"XX": [7]}}, "group XX, entry 1: an entry must be a table"),
        (
            {"schedule": {"XX": [{"time": "10:00", "phase": "OPEN", "who": 1}]}},
            "unknown field 'who'",
        ),
        (
            {"schedule": {"XX": [{"time": "10:00", "phase": "OPEN", "session": "NIGHT"}]}},
            "field session: must be one of",
        ),
        (
            {"schedule": {"XX": [{"time": "10:00", "phase": "OPEN", "new_session": 1}]}},
            "field new_session",
        ),
        ({}, "lists of entries"),
        (day(("10:00", "OPEN"), timezone=99), "timezone must be"),
        (day(("10:00", "OPEN"), holiday=True), "unknown key 'holiday'"),
    ],
)
def test_an_error_names_the_file_the_group_and_the_entry(document, reason):
    with pytest.raises(UsageError, match=r"^day\.toml: ") as fault:
        parse_schedule(document, "day.toml")
    assert reason in str(fault.value)


def test_a_schedule_file_is_read(tmp_path):
    path = tmp_path / "day.toml"
    path.write_text('[[schedule.default]]\ntime = "10:00"\nphase = "OPEN"\n', "utf-8")
    assert load_schedule(path).entries("X")[0].time_ns == 600 * MINUTE


@pytest.mark.parametrize("entries", [CASH_DAY, DERIVATIVES_DAY, OPTIONS_DAY, FORWARD_DAY])
def test_usual_days_go_forward_and_end_closed(entries):
    assert all(a.time_ns < b.time_ns for a, b in pairwise(entries))
    assert entries[0].new_session
    assert entries[-1].phase == TradingStatus.CLOSE


def test_a_usual_day_runs_on_the_bundled_market():
    instruments = bundled_catalogue()
    engine = MatchingEngine(instruments, DAY)
    schedule = default_schedule(instruments)
    groups = sorted({instrument.security_group for instrument in instruments})
    seen: dict[str, list[TradingStatus]] = {}
    for when, command in schedule.commands(groups, DAY):
        engine.apply(command, when)
        seen.setdefault(command.group, []).append(command.phase)
        phases = {phase.group: phase.phase for phase in engine.group_phases()}
        assert phases[command.group] == command.phase
    assert set(seen) == set(groups)
    assert seen["01"] == [entry.phase for entry in CASH_DAY]
    assert seen["D1"] == [entry.phase for entry in DERIVATIVES_DAY]
    assert seen["O1"] == [entry.phase for entry in OPTIONS_DAY]
    assert seen["T1"] == [entry.phase for entry in FORWARD_DAY]


def test_operations_are_in_order_of_time_and_plain():
    rows = [
        {"time": "18:30", "command": "settlement", "price": Decimal("5012.5")},
        {"time": "09:00:01", "command": "closing", "last_trade": date(2026, 5, 20)},
        {"time": "18:30", "command": "protect", "references": [{"watch": "X"}]},
    ]
    schedule = parse_schedule(day(("10:00", "OPEN"), operation=rows), "day.toml")
    assert schedule.requests(DAY) == [
        (parse_ns("2026-05-21T12:00:01"), {"command": "closing", "last_trade": "2026-05-20"}),
        (parse_ns("2026-05-21T21:30:00"), {"command": "settlement", "price": "5012.5"}),
        (parse_ns("2026-05-21T21:30:00"), {"command": "protect", "references": [{"watch": "X"}]}),
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"time": "10:00"}, r"operation must have tables such as \[\[operation\]\]"),
        (["halt"], "operation must have tables"),
        ([{"command": "halt"}], "operation 1, field time: must be a time of day such as 10:00"),
        ([{"time": "25:00", "command": "halt"}], "operation 1, field time"),
    ],
)
def test_operations_have_a_time(rows, words):
    with pytest.raises(UsageError, match=f"day.toml: {words}"):
        parse_schedule(day(("10:00", "OPEN"), operation=rows), "day.toml")
