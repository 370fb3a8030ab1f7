"""The trading day of a message."""

import numpy as np
import pytest

from pregao.clock import parse_ns
from pregao.umdf.phases import day_begins_ns, day_of, day_of_packets

DAY = 20_594  # 2026-05-21


@pytest.mark.parametrize(
    ("time", "day"),
    [
        ("2026-05-21T02:59:59.999999999Z", DAY - 1),
        ("2026-05-21T03:00:00Z", DAY),
        ("2026-05-22T02:59:59Z", DAY),
        ("2026-05-22T03:00:00Z", DAY + 1),
    ],
)
def test_a_day_begins_at_midnight_in_sao_paulo(time, day):
    assert day_of(parse_ns(time)) == day
    assert day_begins_ns(day) <= parse_ns(time) < day_begins_ns(day + 1)


def test_a_packet_without_a_sending_time_belongs_to_the_day_of_its_capture():
    begin = day_begins_ns(DAY)
    days = day_of_packets(np.array([begin, 0, begin - 1]), np.array([0, begin, begin]))
    assert days.tolist() == [DAY, DAY, DAY - 1]
