"""Simulation of a trading day into captures."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from pregao.api.arguments import choice, day_from, parameters
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import (
    TRADE_DATE,
    Compression,
    LegacyDepth,
    SimulationSettings,
    parse_moment,
)
from pregao.exchange.simulation.simulation import Simulation
from pregao.units import parse_duration

Rates = float | str | None
"""A share of packets (0.01), or one for each line (``A=0.01,B=0.02``)."""


@parameters(date="day")
def simulate(
    output: str | os.PathLike[str],
    *,
    profile: str = "equities",
    seed: int = 1,
    duration: str = "30m",
    instruments: int | None = None,
    messages: int | None = None,
    rate: float | None = None,
    loss: Rates = None,
    reorder: Rates = None,
    duplicate: Rates = None,
    late_join: str | None = None,
    day: date | str = TRADE_DATE,
    schema_version: int = 16,
    compress: str = "none",
    legacy: str | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Simulate a trading day into a folder: captures of every stream, and the truth.

    The arguments are those of ``pregao simulate``; the same arguments produce the same bytes.

    Args:
        output: Folder for the captures and their ``truth/``.
        profile: equities, derivatives, stress, thin-derivatives, or the path of a profile.
        seed: Seed of the random numbers.
        duration: Length of the day, such as ``1h30m`` or ``45s``.
        instruments: Number of instruments; by default 40.
        messages: End after this many incremental messages, over all channels.
        rate: Mean orders per second; by default the profile's, or what ``messages`` needs.
        loss: Share of packets lost, such as 0.01 or ``A=0.01,B=0.02``.
        reorder: Share of packets out of order.
        duplicate: Share of packets delivered twice.
        late_join: Start of the captures: a share of the run (``0.5``) or a time (``10:05:30``).
        day: The simulated trading day.
        schema_version: Schema version of the feed.
        compress: Compression of the captures: ``none``, ``gzip`` or ``zstd``.
        legacy: Also publish the legacy feed, with ``orders``, ``prices`` or ``top``.
        force: Overwrite the output of an earlier run in the folder.

    Returns:
        The summary, as written to ``truth/summary.json``.

    Raises:
        UsageError: An argument is invalid, or the folder is not empty and ``force`` is not set.

    Example:
        >>> summary = pregao.simulate("short", duration="1m", messages=200, instruments=2)
        >>> summary["settings"]["seed"]
        1
    """
    settings = SimulationSettings(
        profile=profile,
        out=Path(output),
        seed=seed,
        instruments=instruments,
        duration_ns=parse_duration(duration, "--duration"),
        schema_version=schema_version,
        trade_date=day_from(day),
        rate=rate,
        messages=messages,
        faults=fault_rates(
            parse_rates("loss", _text(loss)),
            parse_rates("reorder", _text(reorder)),
            parse_rates("duplicate", _text(duplicate)),
        ),
        late_join=None if late_join is None else parse_moment("late_join", late_join),
        compression=choice(Compression, compress, "compress"),
        force=force,
        legacy=None if legacy is None else choice(LegacyDepth, legacy, "legacy"),
    )
    return Simulation(settings).run().data


def _text(rates: Rates) -> str | None:
    return None if rates is None else str(rates)
