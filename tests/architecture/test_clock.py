"""Time as integer nanoseconds."""

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.clock import (
    DAY,
    MILLISECOND,
    MINUTE,
    SECOND,
    VirtualClock,
    format_ns,
    parse_ns,
    parse_span,
)
from pregao.errors import UsageError


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("2us", 2_000),
        ("500 ms", 500 * MILLISECOND),
        ("1.5s", 1_500_000_000),
        ("30M", 30 * MINUTE),
        (" 24h ", DAY),
        ("7d", 7 * DAY),
    ],
)
def test_spans_are_read_exactly(text, expected):
    assert parse_span(text, "--span") == expected


@pytest.mark.parametrize("text", ["", "1", "-1h", "1w", "soon", "1h30m"])
def test_an_invalid_duration_is_reported_with_the_option(text):
    with pytest.raises(UsageError, match="--span must be a duration such as 500ms"):
        parse_span(text, "--span")
