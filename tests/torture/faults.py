"""The faults of a seed: what fails, when, and how; as a list that can be written, read and shrunk.

Each fault draws from its own generator, so that a list without one of them leaves the others as
they were.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LINES = ("A", "B", "snapshot", "definition", "legacy A", "legacy B", "legacy loops")
"""Lines of the feeds; the two loops of the legacy feed fail together."""


@dataclass(frozen=True)
class Fault:
    """A fault: its kind, the step at which it begins, and its parameters."""

    kind: str
    step: int
    number: int
    """Identifies the fault within its seed, and seeds its draws."""
    values: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.values.items())
        return f"step {self.step}: {self.kind}{f' ({values})' if values else ''}"


FEED_KINDS = ("loss", "reorder", "duplicate", "delay", "silence", "torn packet")
"""Faults of a line for a number of steps."""
SITE_KINDS = ("site failover", "site reset")
CLIENT_KINDS = ("cut", "slow reader", "stopped reader", "wrong frame", "torn frame", "client kill",
                "session disk full")  # fmt: skip
EXCHANGE_KINDS = ("gateway failover", "kill", "kill in write", "kill before sync", "power loss",
                  "journal byte", "journal truncated", "journal missing", "disk full",
                  "read error", "publisher restart", "clock step")  # fmt: skip
LIVE_KINDS = ("handler restart",)
KINDS = (*FEED_KINDS, *SITE_KINDS, *CLIENT_KINDS, *EXCHANGE_KINDS, *LIVE_KINDS)
LAKE_KINDS = ("task failed", "task duplicated", "lake disk full", "lake commit killed")
"""Faults of a seed that is also ingested into a lake."""


def draw_faults(seed: int, steps: int, *, lake: bool = False) -> list[Fault]:
    """Return the faults of a seed, in the order in which they begin."""
    draw = random.Random(f"faults of {seed}")
    kinds = draw.sample(FEED_KINDS, draw.randint(1, 4)) * draw.choice((1, 2))
    kinds += draw.sample(CLIENT_KINDS, draw.randint(0, 3))
    kinds += draw.sample(EXCHANGE_KINDS, draw.choice((0, 1, 1, 2)))
    kinds += [kind for kind in (*SITE_KINDS, *LIVE_KINDS) if draw.random() < 0.15]
    if draw.random() < 0.1:
        kinds = []
    found = [
        Fault(kind, draw.randrange(steps), number, _values(kind, steps, draw))
        for number, kind in enumerate(kinds)
    ]
    if lake:
        kinds = draw.sample(LAKE_KINDS, draw.randint(1, len(LAKE_KINDS)))
        found += [
            Fault(kind, steps, len(found) + at, {"call": draw.randint(1, 12)})
            for at, kind in enumerate(kinds)
        ]
    return sorted(found, key=lambda each: each.step)


def _values(kind: str, steps: int, draw: random.Random) -> dict[str, Any]:
    """Return the parameters of a fault."""
    lasting = draw.randint(1, steps // 3)
    match kind:
        case "loss":
            lines = draw.sample(LINES, draw.randint(1, len(LINES)))
            return {"lines": lines, "steps": lasting, "share": round(draw.uniform(0.02, 0.3), 3),
                    "burst": draw.choice((1, 1, 5, 20))}  # fmt: skip
        case "reorder" | "duplicate" | "delay" | "torn packet":
            return {"lines": draw.sample(LINES, draw.randint(1, 3)), "steps": lasting,
                    "share": round(draw.uniform(0.02, 0.2), 3)}  # fmt: skip
        case "silence":
            return {"lines": [draw.choice(LINES)], "steps": lasting}
        case "cut":
            return {"trader": draw.randrange(3), "towards": draw.choice(("gateway", "client")),
                    "bytes": draw.randrange(400)}  # fmt: skip
        case "slow reader" | "stopped reader":
            return {"trader": draw.randrange(3), "steps": draw.randint(5, steps // 2)}
        case "wrong frame" | "torn frame" | "client kill" | "session disk full":
            return {"trader": draw.randrange(3)}
        case "kill in write" | "disk full":
            return {"bytes": draw.randrange(200)}
        case "journal byte" | "journal truncated" | "power loss":
            return {"part": round(draw.random(), 4)}
        case "clock step":
            return {"ms": draw.choice((-3_600_000, -1_500, -20, 20, 1_500, 5_000))}
        case "site failover":
            return {"steps": draw.randint(5, steps // 2)}
    return {}


def write_faults(path: Path, faults: Iterable[Fault]) -> None:
    """Write faults to a file that `read_faults` reads."""
    lines = ",\n".join(f"  {json.dumps(asdict(each))}" for each in faults)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read_faults(path: Path) -> list[Fault]:
    """Read faults from a file."""
    return [Fault(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


class FaultyLine:
    """A line of a feed: packets and times in, arrivals out, with the faults that are active."""

    def __init__(self, name: str, seed: int, faults: Iterable[Fault]) -> None:
        self.name = name
        self.faults = [
            (each, random.Random(f"{seed} {each.number} {name}"))
            for each in faults
            if name in each.values.get("lines", ())
        ]
        self._burst: dict[int, int] = {}
        self._free_ns = 0
        self._site_silent = [
            each for each in faults if each.kind == "site failover" and name in ("A", "B")
        ]

    def arrivals(self, step: int, time_ns: int, payload: bytes, count: Any) -> list[Any]:
        """Return the arrivals (time, payload) of a packet; ``count`` is called with each fault."""
        for fault in self._site_silent:
            if fault.step <= step < fault.step + fault.values["steps"]:
                count(fault.kind)
                return []
        when = max(time_ns + 9_000, self._free_ns)
        self._free_ns = when + 700  # the line takes its time
        copies = 1
        for fault, draw in self.faults:
            if not fault.step <= step < fault.step + fault.values["steps"]:
                continue
            share = fault.values.get("share", 1.0)
            if fault.kind == "loss":
                left = self._burst.get(fault.number, 0)
                if left:
                    self._burst[fault.number] = left - 1
                elif draw.random() < share / fault.values["burst"]:
                    self._burst[fault.number] = draw.randrange(fault.values["burst"])
                else:
                    continue
                copies = 0
            elif fault.kind == "silence":
                copies = 0
            elif draw.random() >= share:
                continue
            elif fault.kind == "reorder":
                when += draw.choice((20_000, 2_000_000, 40_000_000))
            elif fault.kind == "delay":
                when += draw.randrange(200_000_000)
                self._free_ns = when  # what follows waits behind it
            elif fault.kind == "duplicate":
                copies = 2 * bool(copies)
            elif fault.kind == "torn packet":
                payload = payload[: -draw.randint(1, 3)]  # never between two messages
            count(fault.kind)
        return [(when + 5_000 * copy, payload) for copy in range(copies)]
