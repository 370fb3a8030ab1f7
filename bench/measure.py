"""Timing by the best of several runs; results are rows of a table and of a JSON file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Row:
    """A measurement: title, value, unit and target."""

    section: str
    what: str
    value: float
    unit: str
    target: str = ""
    note: str = ""

    def json(self) -> dict[str, Any]:
        return asdict(self)


def best(work: Callable[[], Any], *, seconds: float = 1.5, min_runs: int = 3) -> float:
    """Return the shortest time of several runs: other load can only add time."""
    shortest = float("inf")
    stop = time.perf_counter() + seconds
    runs = 0
    while runs < min_runs or time.perf_counter() < stop:
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
        runs += 1
    return shortest
