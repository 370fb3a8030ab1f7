"""Fitting of a profile to the order flow of a real day: a first guess, then iterative steps.

Each step compares the flow of a run with the target, and adjusts the numbers that affect each
difference most. Some numbers depend on others only through the market itself, so there is no
closed-form solution.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pregao.exchange.traders.profiles import FLOW_NUMBERS, bundled_data

THIN = "thin-derivatives"
"""Bundled profile that a fit to a market of fleeting quotes starts from."""
REPRODUCED = (
    "lifetime_median_ms",
    "amended",
    "improving",
    "cancels_per_trade",
    "one_lot",
    "close",
    "busiest",
)
"""Measures that a fit reproduces, with the events per second: eight figures."""
_FEW_AMENDED, _FEW_CANCELS = 0.03, 3.5
"""Limits of the share of amendments and of the cancels per trade between the bundled profiles."""
_SHARES = frozenset({"CS", "PS", "ETF", "CASH", "OPT", "INDEXOPT"})
"""Security types of shares and what follows them."""
_MIN_FACTOR, _MAX_FACTOR = 0.25, 4.0
"""Bounds of the factor by which a number changes in one step."""
_MIN_CALM, _MAX_CALM = 0.03, 1.0


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """Measurements of a flow of orders."""

    events_per_second: float
    numbers: Mapping[str, float]
    """By the names of `FLOW_NUMBERS`."""


@dataclass(frozen=True, slots=True)
class TargetFlowStatistics(FlowStatistics):
    """Measurements of a real flow, with those that only a real one has."""

    instruments: int
    security_types: Sequence[str]
    replaced: float
    """Share of the canceled orders that were replaced."""
    firmless: float
    """Share of the orders without a firm."""
    resting: float
    """Mean number of orders per side of an instrument."""
    lots: Sequence[tuple[int, float]]
    """Sizes of orders in lots, with their shares."""


def first_guess(real: TargetFlowStatistics) -> dict[str, Any]:
    """Return a first profile, as data, with the numbers that can be copied or derived directly."""
    target = real.numbers
    base = _base(real)
    data = copy.deepcopy(bundled_data(base))
    if real.security_types:
        data["security_types"] = list(real.security_types)
    data["rate"] = _shown(real.events_per_second)
    lots = [(lots, share) for lots, share in real.lots if lots >= 1]
    if lots:
        data["quantities"] = {
            "lots": [size for size, _ in lots],
            "weights": [_shown(100 * share) for _, share in lots],
        }
    data["members"]["shown_share"] = _shown(1 - real.firmless)
    data["activity"]["exponent"] = _shown(exponent_for(target["busiest"], real.instruments))
    if base == THIN:
        known, makers = data["calibrated"], data["makers"]
        longer = target["lifetime_median_ms"] / known["lifetime_median_ms"]
        makers["lifetime_ms"] = _shown(max(makers["lifetime_ms"] * longer, 1e-3))
        makers["replace_share"] = _shown(min(real.replaced, 0.9))
    data["calibrated"] = {name: _shown(target[name]) for name in FLOW_NUMBERS}
    return data


def _base(real: TargetFlowStatistics) -> str:
    """Return the bundled profile whose market is most like this one."""
    if real.numbers["amended"] < _FEW_AMENDED:
        return THIN
    if real.numbers["cancels_per_trade"] < _FEW_CANCELS:
        return "stress"
    types = real.security_types
    return "equities" if types and types[0] in _SHARES else "derivatives"


def next_guess(
    data: Mapping[str, Any], real: FlowStatistics, given: FlowStatistics
) -> dict[str, Any]:
    """Return the profile adjusted towards the real flow, after a run that gave another one."""
    after = copy.deepcopy(dict(data))
    ratio = {
        name: _bounded(
            real.numbers[name] / given.numbers[name] if given.numbers[name] else _MAX_FACTOR
        )
        for name in FLOW_NUMBERS
    }
    after["rate"] = _shown(
        data["rate"] * _bounded(real.events_per_second / given.events_per_second)
    )
    makers, excitation = after["makers"], after["excitation"]
    makers["lifetime_ms"] = _shown(makers["lifetime_ms"] * ratio["lifetime_median_ms"])
    target_spread = _spread(real.numbers["lifetime_median_ms"], real.numbers["lifetime_p10_ms"])
    run_spread = _spread(given.numbers["lifetime_median_ms"], given.numbers["lifetime_p10_ms"])
    makers["lifetime_sigma"] = _shown(
        min(makers["lifetime_sigma"] * _bounded(target_spread / run_spread), 4.0)
    )
    makers["improve_share"] = _shown(
        min(max(makers["improve_share"], 0.01) * ratio["improving"], 1.0)
    )
    mix = after["open"]
    mix["aggress"] = _shown(mix["aggress"] / ratio["cancels_per_trade"])
    mix["reduce"] = _shown(max(mix["reduce"], 0.01) * ratio["amended"])
    # The mean size of clusters shows in the times between events, the spread of their sizes in the
    # Fano factor.
    calm = _calm((1 - excitation["branching"]) / ratio["interval_cv"])
    excitation["branching"] = _shown(1 - calm)
    together = excitation["cluster_size"] * ratio["fano"] / ratio["interval_cv"]
    excitation["cluster_size"] = _shown(min(max(together, 1.0), 100.0))
    excitation["fast_share"] = _shown(
        min(max(excitation["fast_share"], 0.01) * ratio["close"], 0.95)
    )
    activity = after["activity"]
    activity["exponent"] = _shown(min(max(activity["exponent"] * ratio["busiest"], 0.0), 5.0))
    return after


def distance(real: FlowStatistics, given: FlowStatistics) -> float:
    """Return how far a flow is from the real one: the largest factor of the eight figures."""
    factors = [given.events_per_second / real.events_per_second]
    for name in REPRODUCED:
        target, measured = real.numbers[name], given.numbers[name]
        if target or measured:
            factors.append(measured / target if target and measured else _MAX_FACTOR)
    return max(max(factor, 1 / factor) if factor else math.inf for factor in factors)


def profile_text(data: Mapping[str, Any]) -> str:
    """Return a profile as TOML, in the form that `load_profile` reads."""
    lines = [f"{key} = {_toml(value)}" for key, value in data.items() if not _is_table(key, value)]
    for key, value in data.items():
        if _is_table(key, value):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(each)}" for name, each in value.items())]
    return "\n".join(lines) + "\n"


def exponent_for(share: float, count: int, first: int = 1) -> float:
    """Return the power law's exponent at which the first ranks of ``count`` have this share."""
    low, high = 0.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        weights = [rank**-middle for rank in range(1, max(count, 1) + 1)]
        reached = sum(weights[:first]) / sum(weights)
        low, high = (middle, high) if reached < share else (low, middle)
    return low


def _is_table(key: str, value: Any) -> bool:
    return isinstance(value, dict) and key != "weights"


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items())}}}"
    return repr(value)


def _spread(median: float, tenth: float) -> float:
    """Return the standard deviation of a time's logarithm from its median and 10th percentile."""
    return min(max(math.log(median / tenth) / 1.2816, 0.1), 4.0) if tenth > 0 else 4.0


def _calm(share: float) -> float:
    return min(max(share, _MIN_CALM), _MAX_CALM)


def _bounded(factor: float) -> float:
    return min(max(factor, _MIN_FACTOR), _MAX_FACTOR)


def _shown(value: float) -> float:
    """Round a number to four significant digits."""
    return float(f"{value:.4g}")
