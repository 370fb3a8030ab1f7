"""``pregao simulate --like``: fit a profile to a day in a lake and compare the order flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.settings import SCHEMA_VERSIONS, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.exchange.traders.fitting import (
    FlowStatistics,
    TargetFlowStatistics,
    distance,
    first_guess,
    next_guess,
    profile_text,
)
from pregao.exchange.traders.profiles import FLOW_NUMBERS
from pregao.safe_io.output_files import replace_file

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.lake.analytics.order_flow import OrderFlowStatistics

ROUNDS = 6
"""Maximum number of trial runs of a fit."""
_GOOD = 1.3
"""A fit ends when all numbers of the profile are within this factor of the target."""
_TRIAL_S = (20.0, 120.0)
"""Minimum and maximum duration of a trial run, in simulated seconds."""
_MAX_DURATION_S = 1800.0
_OPEN_SHARE = 0.88
"""Share of a simulated day that is continuous trading."""
WORDS = {
    "lifetime_median_ms": "lifetime of canceled orders, median (ms)",
    "lifetime_p10_ms": "lifetime of canceled orders, tenth percentile (ms)",
    "amended": "amendments, share of messages",
    "improving": "new orders that improve the best price",
    "cancels_per_trade": "cancels and replacements per trade",
    "one_lot": "orders of one lot",
    "interval_cv": "time between events, coefficient of variation",
    "close": "events less than 200 µs apart",
    "fano": "Fano factor of events over 100 ms",
    "busiest": "share of the busiest instrument",
}
"""Labels of the numbers of an order flow."""


@dataclass(frozen=True, slots=True)
class FittedProfile:
    """A profile fitted to a day."""

    real: OrderFlowStatistics
    data: dict[str, Any]
    """Profile, in the structure of its TOML file."""
    rounds: int
    factor: float
    """Largest factor by which one of the eight figures of the best run differs from the day."""


def fit(
    real: OrderFlowStatistics,
    settings: SimulationSettings,
    on_progress: Callable[[int, float], None],
) -> FittedProfile:
    """Try profiles in short runs until one is close enough; return the best one.

    ``on_progress`` is called after each round with its number and the largest factor by which a
    number of the simulated flow differs from the real one.
    """
    target = _real_flow(real)
    data = first_guess(target)
    seconds = min(max(real.seconds / _OPEN_SHARE, _TRIAL_S[0]), _TRIAL_S[1])
    trial = replace(
        settings,
        instruments=settings.instruments or max(real.instruments, 1),
        duration_ns=int(seconds * SECOND),
        messages=None,
        rate=None,
        legacy=None,
    )
    best, best_distance, rounds = data, float("inf"), 0
    for rounds in range(1, ROUNDS + 1):
        try:
            flow = flow_of(simulated_flow(trial, data))
        except UsageError:
            # Too few orders to measure: double the rate.
            data = {**data, "rate": 2 * data["rate"]}
            continue
        factor = distance(target, flow)
        on_progress(rounds, factor)
        if factor < best_distance:
            best, best_distance = data, factor
        if factor <= _GOOD:
            break
        data = next_guess(data, target, flow)
    return FittedProfile(real, best, rounds, best_distance)


def simulated_flow(
    settings: SimulationSettings, data: dict[str, Any] | None = None
) -> OrderFlowStatistics:
    """Simulate a day in a temporary folder, ingest it into a lake there, and measure its flow.

    ``data`` is a profile that replaces the one of the settings.
    """
    with TemporaryDirectory(prefix="pregao-flow-") as folder:
        root = Path(folder)
        chosen = replace(settings, out=root / "day", force=True)
        if data is not None:
            path = root / "like.toml"
            path.write_text(profile_text(data), encoding="utf-8")
            chosen = replace(chosen, profile=str(path))
        Simulation(chosen).run()
        return measured(root / "day", root / "lake")


def measured(captures: Path, lake: Path) -> OrderFlowStatistics:
    """Ingest captures into a lake, in local processes, and measure the busiest channel."""
    from pregao.lake.analytics.order_flow import measure_flow
    from pregao.lake.execution.processes import ProcessRunner
    from pregao.lake.ingest.pipeline import ingest
    from pregao.lake.storage.lake_store import LakeStore

    with ProcessRunner() as runner:
        ingest([str(captures)], str(lake), runner=runner)
    return measure_flow(LakeStore(str(lake)))


def real_flow(lake: str, day: date | None, channel: int | None) -> OrderFlowStatistics:
    """Measure the order flow of a day in a lake."""
    from pregao.lake.analytics.order_flow import measure_flow
    from pregao.lake.storage.lake_store import LakeStore

    return measure_flow(LakeStore(lake), day, channel)


def like_settings(
    real: OrderFlowStatistics, settings: SimulationSettings, version: int | None
) -> SimulationSettings:
    """Complete the settings of a run that imitates a day: schema version and instruments."""
    if version is None:
        version = max((v for v in SCHEMA_VERSIONS if v <= real.schema_version), default=7)
    return replace(
        settings,
        schema_version=version,
        instruments=settings.instruments or max(real.instruments, 1),
    )


def like_duration(real: OrderFlowStatistics) -> int:
    """Return the duration of a run as long as the measured flow, in nanoseconds."""
    return int(min(max(real.seconds / _OPEN_SHARE, 1.0), _MAX_DURATION_S) * SECOND)


def flow_of(flow: OrderFlowStatistics) -> FlowStatistics:
    """Convert a measured flow to the input of the fit."""
    return FlowStatistics(
        flow.events_per_second, {name: getattr(flow, name) for name in FLOW_NUMBERS}
    )


def _real_flow(flow: OrderFlowStatistics) -> TargetFlowStatistics:
    return TargetFlowStatistics(
        flow.events_per_second,
        flow_of(flow).numbers,
        flow.instruments,
        flow.security_types,
        flow.replaced / max(flow.cancels, 1),
        flow.firmless,
        flow.resting,
        flow.lots,
    )


@contextmanager
def fitted_profile(fitted: FittedProfile, path: Path | None) -> Iterator[Path]:
    """Write the fitted profile to `path`, or to a temporary file; yield the path."""
    with TemporaryDirectory(prefix="pregao-like-") as folder:
        target = Path(folder) / "like.toml" if path is None else path
        source = f"channel {fitted.real.channel} on {fitted.real.date}"
        try:
            title = f"# Fitted to {fitted.real.seconds:.0f} s of {source}.\n"
            replace_file(target, f"{title}{profile_text(fitted.data)}".encode())
        except OSError as error:
            raise UsageError(f"--save-profile: cannot write {target}: {error.strerror}.") from error
        yield target


def comparison(
    real: dict[str, float], given: OrderFlowStatistics
) -> list[tuple[str, str, str, str]]:
    """Return rows of label, real number, simulated number and their ratio."""
    rows = []
    for name, label in WORDS.items():
        if name in real:
            expected, actual = real[name], getattr(given, name)
            ratio = f"{actual / expected:.2f}" if expected else "-"
            rows.append((label, f"{expected:.4g}", f"{actual:.4g}", ratio))
    return rows


def show(out: Console, real: OrderFlowStatistics, given: OrderFlowStatistics) -> None:
    """Print both flows side by side."""
    from pregao.cli.console import print_table

    rows = [
        ("seconds of continuous trading", f"{real.seconds:.4g}", f"{given.seconds:.4g}", ""),
        (
            "events per second",
            f"{real.events_per_second:.4g}",
            f"{given.events_per_second:.4g}",
            f"{given.events_per_second / real.events_per_second:.2f}",
        ),
        *comparison({name: getattr(real, name) for name in FLOW_NUMBERS}, given),
    ]
    title = f"channel {real.channel} on {real.date}, and its simulation"
    columns = ("what", "real", "simulated", "ratio")
    print_table(out, title, columns, rows, numbers="real simulated ratio", framed=True)
