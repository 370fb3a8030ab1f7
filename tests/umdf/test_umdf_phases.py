"""Phases of groups and states of instruments (000 §14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.schemas.bundle import bundled, bundled_versions
from pregao.umdf.phases import (
    RESET_WITH_THE_SESSION,
    GroupKey,
    Phases,
    StatisticsReset,
    Status,
    StatusChange,
    TradingEvent,
    instrument_status,
    phase_status,
)

XX = GroupKey("XX")
SESSION = TradingEvent.TRADING_SESSION_CHANGE
OWN = TradingEvent.SECURITY_STATUS_CHANGE
REJOIN = TradingEvent.SECURITY_REJOINS_SECURITY_GROUP_STATUS
PAUSE, CLOSE, OPEN, FORBIDDEN, RESERVED, FINAL = 2, 4, 17, 18, 21, 101


def group_of(*security_ids, phase=OPEN):
    phases = Phases()
    for security_id in security_ids:
        phases.define(security_id, XX)
    phases.group_phase(XX, phase)
    return phases


def test_14_a_group_phase_moves_all_its_instruments():
    phases = group_of(1, 2)
    phases.define(3, GroupKey("YY"))
    assert phases.group_phase(XX, PAUSE) == [
        StatusChange(1, Status.OPEN, Status.PAUSE),
        StatusChange(2, Status.OPEN, Status.PAUSE),
    ]
    assert phases.status(3) is Status.UNKNOWN
    assert phases.phase(XX) is Status.PAUSE


def test_14_an_instrument_separates_from_its_group_and_rejoins_it():
    phases = group_of(99999999, 1)
    change = phases.security_status(99999999, PAUSE, OWN)
    assert change == [StatusChange(99999999, Status.OPEN, Status.PAUSE)]
    assert phases.is_separate(99999999)
    assert phases.status(1) is Status.OPEN
    assert phases.group_phase(XX, CLOSE) == [StatusChange(1, Status.OPEN, Status.CLOSE)]
    assert phases.status(99999999) is Status.PAUSE  # not the group's
    phases.group_phase(XX, OPEN)
    back = phases.security_status(99999999, OPEN, REJOIN)
    assert back == [StatusChange(99999999, Status.PAUSE, Status.OPEN)]
    assert not phases.is_separate(99999999)
    phases.group_phase(XX, PAUSE)
    assert phases.status(99999999) is Status.PAUSE


def test_14_rejoining_emits_the_phase_of_the_group():
    phases = Phases()
    phases.define(1, XX)
    phases.define(2, XX)
    phases.security_status(1, PAUSE, OWN)
    changes = phases.security_status(1, OPEN, REJOIN)
    assert phases.phase(XX) is Status.OPEN
    assert set(changes) == {
        StatusChange(1, Status.PAUSE, Status.OPEN),
        StatusChange(2, Status.UNKNOWN, Status.OPEN),
    }


def test_14_no_state_in_a_snapshot_means_that_of_the_group():
    phases = group_of(1)
    phases.security_status(1, PAUSE, OWN)
    assert phases.security_status(1, None, None) == [StatusChange(1, Status.PAUSE, Status.OPEN)]
    assert not phases.is_separate(1)


def test_14_a_state_without_its_event_comes_from_the_group():
    phases = Phases()
    phases.security_status(7, OPEN, None)
    assert phases.status(7) is Status.OPEN  # all that is known
    phases.define(7, XX)
    phases.group_phase(XX, PAUSE)
    assert phases.status(7) is Status.PAUSE
    phases.security_status(7, OPEN, None)
    assert phases.status(7) is Status.PAUSE
    assert not phases.is_separate(7)


def test_14_1_forbidden_stays_until_the_instrument_rejoins():
    phases = group_of(1)
    phases.security_status(1, FORBIDDEN, OWN)
    for phase in (CLOSE, RESERVED, OPEN):
        phases.group_phase(XX, phase, SESSION)
        assert phases.status(1) is Status.FORBIDDEN
    phases.security_status(1, OPEN, REJOIN)
    assert phases.status(1) is Status.OPEN


def test_14_2_the_value_18_is_pre_close_of_a_group_and_forbidden_of_an_instrument():
    assert phase_status(18) is Status.PRE_CLOSE
    assert instrument_status(18) is Status.FORBIDDEN
    phases = group_of(1, phase=18)
    assert phases.status(1) is Status.PRE_CLOSE
    phases.security_status(1, 18, REJOIN)
    assert phases.status(1) is Status.PRE_CLOSE
    assert phases.phase(XX) is Status.PRE_CLOSE


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (PAUSE, Status.PAUSE),
        (CLOSE, Status.CLOSE),
        (OPEN, Status.OPEN),
        (RESERVED, Status.RESERVED),
        (FINAL, Status.FINAL_CLOSING_CALL),
        (20, Status.UNKNOWN),
        (77, Status.UNKNOWN),
        (None, Status.UNKNOWN),
    ],
)
def test_14_1_and_14_2_states_and_phases(value, status):
    assert phase_status(value) is status
    assert instrument_status(value) is status


def test_states_and_events_are_understood_by_the_names_that_decoding_gives():
    schema = bundled("umdf", 16)
    for name in ("TradingSessionSubID", "SecurityTradingStatus"):
        values = {member.name: member.value for member in schema.types[name].members}
        assert len(values) == 7
        for text, number in values.items():
            assert phase_status(text) is phase_status(number)
            assert instrument_status(text) is instrument_status(number)
    phases = group_of(1)
    phases.security_status(1, "RESERVED", "SECURITY_STATUS_CHANGE")
    assert phases.status(1) is Status.RESERVED
    phases.security_status(1, "OPEN", "SECURITY_REJOINS_SECURITY_GROUP_STATUS")
    assert phases.status(1) is Status.OPEN
    assert phases.group_phase(XX, "OPEN", "TRADING_SESSION_CHANGE") == [StatisticsReset((1,))]
    assert phases.group_phase(XX, "OPEN", "SOMETHING_NEW") == []


def test_14_2_continuous_trading_needs_an_open_instrument_in_an_open_group():
    phases = group_of(1)
    assert phases.trades_continuously(1)
    phases.security_status(1, RESERVED, OWN)
    assert not phases.trades_continuously(1)
    phases.security_status(1, OPEN, OWN)
    phases.group_phase(XX, PAUSE)
    assert not phases.trades_continuously(1)
    assert not phases.trades_continuously(404)


@pytest.mark.parametrize("undefined", [20, "UNKNOWN_OR_INVALID"])
def test_001_12_an_undefined_state_or_phase_is_unknown(undefined):
    """001 §12 gives states and phases the value 20; it must not leave the last one in effect."""
    phases = group_of(1, 2, 3)
    phases.security_status(3, OPEN, OWN)
    assert phases.security_status(1, 77, OWN) == []  # without a meaning: ignored (001 §3.3)
    unknown = StatusChange(1, Status.OPEN, Status.UNKNOWN)
    assert phases.security_status(1, undefined, OWN) == [unknown]
    assert phases.is_separate(1)
    assert not phases.trades_continuously(1)
    assert phases.group_phase(XX, 77) == []
    assert phases.group_phase(XX, undefined) == [StatusChange(2, Status.OPEN, Status.UNKNOWN)]
    assert phases.phase(XX) is Status.UNKNOWN
    # It is open by itself, but the more restrictive of two states rules (000 §14.1).
    assert phases.status(3) is Status.OPEN
    assert not phases.trades_continuously(3)
    assert phases.group_phase(XX, undefined) == []
    assert phases.group_phase(XX, PAUSE) == [StatusChange(2, Status.UNKNOWN, Status.PAUSE)]
    assert phases.security_status(1, PAUSE, REJOIN) == [
        StatusChange(1, Status.UNKNOWN, Status.PAUSE)
    ]
    assert not phases.is_separate(1)


def test_001_12_an_undefined_phase_makes_what_was_known_before_the_group_unknown():
    phases = Phases()
    phases.security_status(1, OPEN, REJOIN)
    phases.define(1, XX)
    assert phases.status(1) is Status.OPEN
    assert phases.group_phase(XX, 20) == [StatusChange(1, Status.OPEN, Status.UNKNOWN)]
    assert phases.status(1) is Status.UNKNOWN


def test_14_3_a_new_session_resets_statistics_by_either_message():
    phases = group_of(1, 2)
    assert phases.security_status(1, CLOSE, SESSION) == [StatisticsReset((1,))]
    assert phases.status(1) is Status.OPEN  # it still follows its group
    assert phases.group_phase(XX, CLOSE, SESSION)[-1] == StatisticsReset((1, 2))
    phases.security_status(2, PAUSE, OWN)
    assert phases.security_status(2, None, SESSION) == [StatisticsReset((2,))]
    assert phases.status(2) is Status.PAUSE


def test_14_3_reset_data():
    names = {m.id: m.name.rpartition("_")[0] for m in bundled("umdf", 16).messages}
    assert {names[template] for template in RESET_WITH_THE_SESSION} == {
        "LastTradePrice",
        "ExecutionStatistics",
        "OpeningPrice",
        "TheoreticalOpeningPrice",
        "HighPrice",
        "LowPrice",
    }


def test_group_codes_of_two_exchanges_are_two_groups():
    phases = group_of(1)
    phases.define(2, GroupKey("XX", "XBSP"))
    phases.group_phase(GroupKey("XX", "XBSP"), PAUSE)
    assert (phases.status(1), phases.status(2)) == (Status.OPEN, Status.PAUSE)


def test_an_instrument_can_change_groups_and_leave():
    phases = group_of(1)
    phases.group_phase(GroupKey("YY"), CLOSE)
    assert phases.define(1, GroupKey("YY")) == [StatusChange(1, Status.OPEN, Status.CLOSE)]
    assert phases.group_phase(XX, PAUSE) == []
    phases.remove(1)
    assert phases.status(1) is Status.UNKNOWN
    assert phases.group_phase(GroupKey("YY"), OPEN) == []


def states(version):
    types = bundled("umdf", version).types
    return types["TradingSessionSubID"], types["SecurityTradingStatus"]


VERSIONS = [version.number for version in bundled_versions("umdf")]


@pytest.mark.parametrize("version", VERSIONS)
def test_000_14_2_a_name_means_its_number_in_every_version(version):
    """Messages have the names of the wire's version; a rule applies to the number."""
    phases, own = states(version)
    assert {member.value for member in phases.members} == {2, 4, 17, 18, 20, 21, 101}
    for member in phases.members:
        assert phase_status(member.name) is phase_status(member.value)
        assert (phase_status(member.value) is Status.UNKNOWN) == (member.value == 20)
    for member in own.members:
        assert instrument_status(member.name) is instrument_status(member.value)
        # An instrument that rejoins its group shows the phase with a name of its own states.
        assert phase_status(member.name) is phase_status(member.value)
    assert phase_status("PRE_CLOSE") is phase_status("FORBIDDEN") is Status.PRE_CLOSE
    assert phase_status("PRE_OPEN") is phase_status("RESERVED") is Status.RESERVED
    assert phase_status("21") is Status.RESERVED  # a number that a table has as text
    assert phase_status("77") is phase_status("no such phase") is Status.UNKNOWN


VALUES = st.sampled_from([None, PAUSE, CLOSE, OPEN, FORBIDDEN, RESERVED, FINAL, 20])
EVENTS = st.sampled_from([None, SESSION, OWN, REJOIN])


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("group"), st.sampled_from(["XX", "YY"]), VALUES, EVENTS),
            st.tuples(st.just("status"), st.integers(1, 4), VALUES, EVENTS),
            st.tuples(st.just("define"), st.integers(1, 4), st.sampled_from(["XX", "YY"])),
        ),
        max_size=40,
    )
)
def test_every_change_of_state_is_emitted_and_nothing_else(steps):
    phases = Phases()
    known = dict.fromkeys(range(1, 5), Status.UNKNOWN)
    for step in steps:
        match step:
            case ("group", group, value, event):
                changes = phases.group_phase(GroupKey(group), value, event)
            case ("status", security_id, value, event):
                changes = phases.security_status(security_id, value, event)
            case (_, security_id, group):
                changes = phases.define(security_id, GroupKey(group))
        for change in changes:
            if isinstance(change, StatusChange):
                assert known[change.security_id] is change.before
                assert change.before is not change.now
                known[change.security_id] = change.now
        assert known == {one: phases.status(one) for one in known}
