"""How things are timed: repeat, take the best; results are rows of a table and of a JSON file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Row:
    """A measurement: what, how much, in which unit, and what it should reach."""

    section: str
    what: str
    value: float
    unit: str
    target: str = ""
    note: str = ""

    def json(self) -> dict[str, Any]:
        return asdict(self)


def best(work: Callable[[], Any], *, seconds: float = 1.5, least: int = 3) -> float:
    """The shortest time of several runs: the machine is shared, and only ever adds time."""
    shortest = float("inf")
    stop = time.perf_counter() + seconds
    runs = 0
    while runs < least or time.perf_counter() < stop:
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
        runs += 1
    return shortest
