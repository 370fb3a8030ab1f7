"""Bars: equal to a plain recomputation, exact to the last decimal."""

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.clock import DAY, HOUR, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.lake.analytics.bars import interval_name, interval_ns, known_intervals
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import analysed, message_key, rows

LENGTHS = {"1s": SECOND, "1m": MINUTE, "5m": 5 * MINUTE, "1h": HOUR, "1d": DAY}
MIDNIGHT = 1779332400 * SECOND
"""2026-05-21 00:00 in São Paulo."""


def expected_bars(trades):
    bars = {}
    for name, length in LENGTHS.items():
        for row in sorted(trades, key=message_key):
            if row["busted"]:
                continue
            start = MIDNIGHT + (row["time_ns"] - MIDNIGHT) // length * length
            bars.setdefault((row["security_id"], name, start), []).append(row)
    for (security_id, name, start), own in bars.items():
        lasting = [row["price"] for row in own if row["sets_last_price"]]
        prices = [row["price"] for row in own]
        volume = sum(row["size"] for row in own)
        notional = sum(row["price"] * row["size"] for row in own)
        with localcontext(prec=60):
            vwap = (notional / volume).quantize(Decimal("1e-8"), ROUND_HALF_UP)
        yield {
            "security_id": security_id,
            "interval": name,
            "start_ns": start,
            "end_ns": start + LENGTHS[name],
            "open": lasting[0] if lasting else None,
            "high": max(prices),
            "low": min(prices),
            "close": lasting[-1] if lasting else None,
            "volume": volume,
            "notional": notional,
            "vwap": vwap,
            "trades": len(own),
            "buy_volume": sum(r["size"] for r in own if r["aggressor_side"] == "BUY"),
            "sell_volume": sum(r["size"] for r in own if r["aggressor_side"] == "SELL"),
        }


def in_order(bars):
    return sorted(bars, key=lambda bar: (bar["security_id"], bar["interval"], bar["start_ns"]))


def test_bars_equal_a_plain_recomputation():
    lake, _ = analysed(**SETTINGS)
    expected = in_order(expected_bars(rows(lake, "trades")))
    found = in_order(rows(lake, "bars"))
    assert [{name: bar[name] for name in expected[0]} for bar in found] == expected
    assert any(bar["open"] is None for bar in expected), "no bar without a last price was tried"


@given(st.sampled_from(["ms", "s", "m", "h"]), st.integers(1, 86_400_000))
def test_an_interval_has_one_name(unit, count):
    sizes = {"ms": 10**6, "s": SECOND, "m": MINUTE, "h": HOUR}
    length = count * sizes[unit]
    if length > DAY:
        with pytest.raises(UsageError, match="at most 1d"):
            interval_ns(f"{count}{unit}")
        return
    assert interval_ns(f"{count}{unit}") == length
    assert interval_ns(interval_name(length)) == length
    assert known_intervals([f"{count}{unit}", interval_name(length)]) == (interval_name(length),)


@pytest.mark.parametrize("text", ["", "0s", "1", "m", "1.5ms", "-1m", "2d", "1 fortnight"])
def test_an_invalid_interval_is_refused(text):
    with pytest.raises(UsageError, match="--interval"):
        interval_ns(text)
