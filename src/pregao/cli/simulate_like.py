"""``pregao simulate --like``: a profile fitted to a day in a lake, and both flows side by side."""

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
from pregao.exchange.simulation import SCHEMA_VERSIONS, Settings, Simulation
from pregao.exchange.traders import FLOW_NUMBERS
from pregao.exchange.traders.fitting import (
    Flow,
    RealFlow,
    distance,
    first_guess,
    next_guess,
    profile_text,
)
from pregao.output_files import replace_file

if TYPE_CHECKING:
    from rich.console import Console

    from pregao.lake.analytics import OrderFlow

ROUNDS = 6
"""So many runs are tried for the profile."""
_GOOD = 1.3
"""A profile whose numbers are all within this factor is good enough."""
_TRIAL_S = (20.0, 120.0)
"""How long a trial run takes at least and at most."""
_LONGEST_S = 1800.0
_OPEN_SHARE = 0.88
"""So much of a simulated day is continuous trading."""
WORDS = {
    "lifetime_median_ms": "lifetime of cancelled orders, median (ms)",
    "lifetime_p10_ms": "lifetime of cancelled orders, tenth percentile (ms)",
    "amended": "amendments, share of messages",
    "improving": "new orders that improve the best price",
    "cancels_per_trade": "cancels and replacements per trade",
    "one_lot": "orders of one lot",
    "interval_cv": "time between events, coefficient of variation",
    "close": "events less than 200 µs apart",
    "fano": "Fano factor of events over 100 ms",
    "busiest": "share of the busiest instrument",
}
"""What the numbers of a flow are called."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A profile that was fitted to a day."""

    real: OrderFlow
    data: dict[str, Any]
    """The profile, as its TOML holds it."""
    rounds: int


def fit(real: OrderFlow, settings: Settings, told: Callable[[int, float], None]) -> Fitted:
    """Try profiles in short runs until one is close; the best of them is taken.

    ``told`` hears of each round: its number, and the largest factor between two numbers.
    """
    wanted = _real_flow(real)
    data = first_guess(wanted)
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
            given = flow_of(simulated_flow(trial, data))
        except UsageError:
            # So few orders that nothing can be measured: more of them, then.
            data = {**data, "rate": 2 * data["rate"]}
            continue
        away = distance(wanted, given)
        told(rounds, away)
        if away < best_distance:
            best, best_distance = data, away
        if away <= _GOOD:
            break
        data = next_guess(data, wanted, given)
    return Fitted(real, best, rounds)


def simulated_flow(settings: Settings, data: dict[str, Any] | None = None) -> OrderFlow:
    """Simulate a day in a folder of its own, take it into a lake there, and measure it.

    ``data`` is a profile to use in place of that of the settings.
    """
    with TemporaryDirectory(prefix="pregao-flow-") as folder:
        place = Path(folder)
        chosen = replace(settings, out=place / "day", force=True)
        if data is not None:
            path = place / "like.toml"
            path.write_text(profile_text(data), encoding="utf-8")
            chosen = replace(chosen, profile=str(path))
        Simulation(chosen).run()
        return measured(place / "day", place / "lake")


def measured(captures: Path, lake: Path) -> OrderFlow:
    """Take captures into a lake, in this process, and measure the busiest channel."""
    from pregao.lake.analytics import measure_flow
    from pregao.lake.ingest import ingest, merge_here, run_here
    from pregao.lake.store import Lake

    ingest([str(captures)], str(lake), None, run=run_here, merge=merge_here)
    return measure_flow(Lake(str(lake)))


def real_flow(lake: str, day: date | None, channel: int | None) -> OrderFlow:
    """The flow of a day in a lake."""
    from pregao.lake.analytics import measure_flow
    from pregao.lake.store import Lake

    return measure_flow(Lake(lake), day, channel)


def like_settings(real: OrderFlow, settings: Settings, version: int | None) -> Settings:
    """The settings of a run that is to be like a day, as far as they were left open."""
    if version is None:
        version = max((v for v in SCHEMA_VERSIONS if v <= real.schema_version), default=7)
    return replace(
        settings,
        schema_version=version,
        instruments=settings.instruments or max(real.instruments, 1),
    )


def like_duration(real: OrderFlow) -> int:
    """A run as long as what was measured, in nanoseconds."""
    return int(min(max(real.seconds / _OPEN_SHARE, 1.0), _LONGEST_S) * SECOND)


def flow_of(flow: OrderFlow) -> Flow:
    """A measured flow as the fit takes it."""
    return Flow(flow.events_per_second, {name: getattr(flow, name) for name in FLOW_NUMBERS})


def _real_flow(flow: OrderFlow) -> RealFlow:
    return RealFlow(
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
def fitted_profile(fitted: Fitted, path: Path | None) -> Iterator[Path]:
    """The file with the fitted profile: the one that was asked for, or one that goes away."""
    with TemporaryDirectory(prefix="pregao-like-") as folder:
        place = Path(folder) / "like.toml" if path is None else path
        where = f"channel {fitted.real.channel} on {fitted.real.date}"
        try:
            title = f"# Fitted to {fitted.real.seconds:.0f} s of {where}.\n"
            replace_file(place, f"{title}{profile_text(fitted.data)}".encode())
        except OSError as error:
            raise UsageError(
                f"--save-profile: {place} cannot be written: {error.strerror}"
            ) from error
        yield place


def comparison(real: dict[str, float], given: OrderFlow) -> list[tuple[str, str, str, str]]:
    """Real beside simulated, number by number: what, real, simulated, and their ratio."""
    rows = []
    for name, words in WORDS.items():
        if name in real:
            wanted, was = real[name], getattr(given, name)
            ratio = f"{was / wanted:.2f}" if wanted else "-"
            rows.append((words, f"{wanted:.4g}", f"{was:.4g}", ratio))
    return rows


def show(out: Console, real: OrderFlow, given: OrderFlow) -> None:
    """Print both flows side by side."""
    from pregao.cli.terminal import print_table

    rows = [
        ("seconds of continuous trading", f"{real.seconds:.4g}", f"{given.seconds:.4g}", ""),
        (
            "events a second",
            f"{real.events_per_second:.4g}",
            f"{given.events_per_second:.4g}",
            f"{given.events_per_second / real.events_per_second:.2f}",
        ),
        *comparison({name: getattr(real, name) for name in FLOW_NUMBERS}, given),
    ]
    title = f"channel {real.channel} on {real.date}, and a day like it"
    columns = ("what", "real", "simulated", "ratio")
    print_table(out, title, columns, rows, numbers="real simulated ratio", framed=True)
