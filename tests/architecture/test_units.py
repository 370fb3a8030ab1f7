"""Prices, days, durations and zones, and that nothing else defines them."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pregao
from pregao.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND, parse_ns
from pregao.errors import UsageError
from pregao.umdf.phases import day_of_packets
from pregao.units import (
    MARKET_ZONE,
    MAX_DAY,
    MIN_DAY,
    date_of,
    day_begins_ns,
    day_number,
    day_of,
    iso_day,
    mantissa_of,
    midnight_ns,
    parse_day,
    parse_duration,
    parse_zone,
    price_of,
    price_text,
)

ZONE = ZoneInfo(MARKET_ZONE)
FIRST, LAST = parse_ns("1975-01-01"), parse_ns("2040-01-01")
SOURCE = Path(pregao.__file__).parent


def changes():
    """The moments at which the zone database changes the offset of the market's zone."""
    found, before = [], timedelta(hours=-3)
    for hour in range(FIRST // HOUR, LAST // HOUR):
        offset = datetime.fromtimestamp(hour * 3600, UTC).astimezone(ZONE).utcoffset()
        if offset != before:
            found.append(hour * HOUR)
            before = offset
    return found


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 9))
def test_a_price_is_exact_as_decimal_text_and_mantissa(mantissa, decimals):
    price = price_of(mantissa, decimals)
    assert price * 10**decimals == mantissa
    assert f"{price:f}" == (price_text(mantissa, decimals) if decimals else str(mantissa))
    assert mantissa_of(price, decimals) == mantissa


def test_prices_without_a_mantissa():
    assert price_of(None) is price_text(None) is mantissa_of(None) is None
    assert mantissa_of(Decimal("1.00005")) is None
    assert price_text(-5) == "-0.0005"


@given(st.integers(MIN_DAY, MAX_DAY))
def test_a_day_is_a_number_a_date_and_text(number):
    day = date_of(number)
    assert day == date(1970, 1, 1) + timedelta(days=number)
    assert day_number(day) == number
    assert parse_day(iso_day(number), "day") == day
    assert midnight_ns(day) == number * DAY


@pytest.mark.parametrize("text", ["", "today", "2026-02-30", "21/05/2026"])
def test_an_invalid_day_is_reported_with_its_name(text):
    with pytest.raises(
        UsageError, match=re.escape(f"--date must be a date such as 2026-05-21, was {text!r}")
    ):
        parse_day(text, "--date")


@given(st.integers(FIRST, LAST))
def test_a_time_belongs_to_the_markets_day(time_ns):
    day = datetime.fromtimestamp(time_ns // SECOND, UTC).astimezone(ZONE).date()
    assert date_of(day_of(time_ns)) == day
    begin = day_begins_ns(day_of(time_ns))
    assert begin <= time_ns < day_begins_ns(day_of(time_ns) + 1)
    assert day_of(begin) == day_of(begin - 1) + 1


def test_days_on_both_sides_of_every_change_of_summer_time():
    moments = changes()
    assert len(moments) == 68
    times = [
        moment + shift
        for moment in moments
        for shift in (-HOUR - 1, -HOUR, -1, 0, HOUR - 1, HOUR, 12 * HOUR)
    ]
    local = [datetime.fromtimestamp(t // SECOND, UTC).astimezone(ZONE).date() for t in times]
    assert [date_of(day_of(time)) for time in times] == local
    assert day_of(np.array(times)).tolist() == [day_number(day) for day in local]


@pytest.mark.parametrize(
    ("day", "begin", "hours"),
    [
        ("2018-11-03", "2018-11-03T03:00:00Z", 24),
        ("2018-11-04", "2018-11-04T03:00:00Z", 23),  # summer time begins
        ("2018-11-05", "2018-11-05T02:00:00Z", 24),
        ("2019-02-16", "2019-02-16T02:00:00Z", 25),  # and ends
        ("2019-02-17", "2019-02-17T03:00:00Z", 24),
        ("2026-05-21", "2026-05-21T03:00:00Z", 24),
    ],
)
def test_where_a_day_of_the_market_begins(day, begin, hours):
    number = day_number(date.fromisoformat(day))
    assert day_begins_ns(number) == parse_ns(begin)
    assert day_begins_ns(number + 1) - day_begins_ns(number) == hours * HOUR


def test_a_packet_without_a_sending_time_belongs_to_the_day_of_its_capture():
    begin = day_begins_ns(20_594)
    days = day_of_packets(np.array([begin, 0, begin - 1]), np.array([0, begin, begin]))
    assert days.tolist() == [20_594, 20_594, 20_593]


def test_a_column_without_times_has_no_days():
    assert day_of(np.zeros(0, np.int64)).tolist() == []


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
        ("1h30m", 90 * MINUTE),
        (" 2min ", 2 * MINUTE),
    ],
)
def test_durations_are_read_exactly(text, expected):
    assert parse_duration(text, "--span") == expected


@pytest.mark.parametrize("text", ["", "1", "-1h", "1w", "soon", "1h-5m", "5s5", "²s"])
def test_an_invalid_duration_is_reported_with_its_name(text):
    with pytest.raises(UsageError, match="--span must be a duration such as 500ms"):
        parse_duration(text, "--span")


def test_a_duration_has_a_limit():
    assert parse_duration("36500d", "--span") == 36_500 * DAY
    for text in ("36501d", "9" * 400 + "d"):
        with pytest.raises(UsageError, match=r"--span must be a duration of at most 36500d"):
            parse_duration(text, "--span")
    with pytest.raises(UsageError, match=r"--span must be a duration of at most 1d"):
        parse_duration("25h", "--span", DAY)


@pytest.mark.parametrize("name", ["", "Mars", "../../etc/passwd", "\0"])
def test_an_unknown_zone_is_reported_with_its_name(name):
    with pytest.raises(UsageError, match="--tz must be a time zone such as America/Sao_Paulo"):
        parse_zone(name, "--tz")


def test_zones():
    assert parse_zone("UTC", "--tz").key == "UTC"
    with pytest.raises(UsageError, match=r"Did you mean America/Sao_Paulo\?"):
        parse_zone("sao paulo", "--tz")


@pytest.mark.parametrize(
    ("what", "pattern", "modules"),
    [
        ("days since 1970", r"date\(1970, 1, 1\)|719_?163|toordinal\(\) -", {"units"}),
        (
            "the market's zone",
            r"^\w+ = .America/Sao_Paulo|hours=-3|-3 \* (3600|HOUR)",
            {"units"},
        ),
        ("text of a price", r"0{decimals}d|:04d}", {"units"}),
        ("a side of a book", r"class Side\(", {"units"}),
        ("parsing of days", r"must be a date such as 2026-05-21", {"units"}),
        ("parsing of durations", r"must be a duration such as", {"units"}),
        ("parsing of zones", r"must be a time zone such as", {"units"}),
        ("similar names", r"import difflib", {"name_matching"}),
    ],
)
def test_a_fact_is_defined_once(what, pattern, modules):
    found = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in SOURCE.rglob("*.py")
        if re.search(pattern, path.read_text(encoding="utf-8"), re.M)
    }
    assert found == modules, what
