"""Time as integer nanoseconds."""

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.clock import SECOND, VirtualClock, format_ns, parse_ns


@given(st.integers(0, 253402300799 * SECOND + 999_999_999))
def test_a_written_time_is_read_back(when):
    assert parse_ns(format_ns(when)) == when


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01 00:00:01.5", 1_500_000_000),
        ("1970-01-01T00:00:00-03:00", 3 * 3600 * SECOND),
        ("1970-01-02", 86_400 * SECOND),
        ("1700000000123456789", 1_700_000_000_123_456_789),
    ],
)
def test_ways_to_write_a_time(text, when):
    assert parse_ns(text) == when


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("1970-01-01", 3 * 3600 * SECOND),
        ("1970-01-01T00:00:00.000000001", 3 * 3600 * SECOND + 1),
        ("1970-01-01T00:00:00Z", 0),
        ("1700000000123456789", 1_700_000_000_123_456_789),
    ],
)
def test_a_time_without_a_zone_is_of_the_one_that_is_given(text, when):
    assert parse_ns(text, timezone(timedelta(hours=-3))) == when


@pytest.mark.parametrize("text", ["", "now", "1970-13-01", "1970-01-01T00:00:00.", "12:00"])
def test_invalid_times(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_ns(text)


def test_a_virtual_clock_moves_only_forward():
    clock = VirtualClock(10)
    assert clock.advance(5) == 15 == clock()
    assert clock.advance_to(20) == 20
    with pytest.raises(ValueError, match="cannot be moved back"):
        clock.advance_to(19)
