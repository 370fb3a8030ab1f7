"""Settings of a simulation, and parsers of their text forms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date, time
from enum import StrEnum
from pathlib import Path

from pregao.clock import HOUR, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.network_faults import STREAMS, FaultRates

SCHEMA_VERSIONS = (7, 8, 9, 10, 15, 16, 17)
"""Schema versions of the binary feed that can be written."""
TRADE_DATE = date(2026, 5, 21)
"""Default trade date; fixed, so that the same command gives the same bytes."""
MAX_DURATION_NS = 24 * HOUR
MAX_INSTRUMENTS = 100_000
MAX_RATE = 1_000_000.0


class Compression(StrEnum):
    """Compression of captures."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def ending(self) -> str:
        """File name suffix of the compression."""
        return {"none": "", "gzip": ".gz", "zstd": ".zst"}[self.value]


class ResetKind(StrEnum):
    """Scope of a reset: the channel's books, or its sequence numbers too."""

    CHANNEL = "channel"
    SEQUENCE = "sequence"


class LegacyDepth(StrEnum):
    """Book depth of the legacy feed (UMDF FIX/FAST) written in addition to the binary one."""

    ORDERS = "orders"
    PRICES = "prices"
    TOP = "top"

    @property
    def market_depth(self) -> int | None:
        """Number of price levels; None for all orders."""
        return {"orders": None, "prices": 5, "top": 1}[self.value]


@dataclass(frozen=True, slots=True)
class RunPoint:
    """A point in a run: a share of it, or a time of its day."""

    share: float | None = None
    time_of_day: time | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class InjectedReset:
    """A reset injected into the run."""

    kind: ResetKind
    moment: RunPoint


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """Everything a run depends on: the same settings give the same bytes."""

    profile: str
    out: Path
    seed: int = 1
    instruments: int | None = None
    """Number of instruments; None: 40 of the catalog, or all of `instruments_file`."""
    duration_ns: int = 30 * MINUTE
    schema_version: int = 16
    trade_date: date = TRADE_DATE
    rate: float | None = None
    """Mean orders per second; None: the profile's rate, or the rate that `messages` requires."""
    messages: int | None = None
    """Number of incremental messages, over all channels, after which the run ends."""
    faults: dict[str, FaultRates] = field(
        default_factory=lambda: dict.fromkeys(STREAMS, FaultRates())
    )
    late_join: RunPoint | None = None
    """Start of the captures; None: the start of the run."""
    resets: tuple[InjectedReset, ...] = ()
    instruments_file: Path | None = None
    schedule_file: Path | None = None
    compression: Compression = Compression.NONE
    truth_books: int = 10
    """Number of times the books are written to the truth, including the end of the run."""
    force: bool = False
    legacy: LegacyDepth | None = None
    """Book depth of the legacy feed; None: no legacy feed."""

    def __post_init__(self) -> None:
        if self.instruments is not None and not 1 <= self.instruments <= MAX_INSTRUMENTS:
            raise UsageError(
                f"--instruments must be from 1 to {MAX_INSTRUMENTS}, was {self.instruments}"
            )
        if not SECOND <= self.duration_ns <= MAX_DURATION_NS:
            raise UsageError(
                f"--duration must be from 1s to 24h, was {self.duration_ns / SECOND:g}s"
            )
        if self.schema_version not in SCHEMA_VERSIONS:
            known = ", ".join(map(str, SCHEMA_VERSIONS))
            raise UsageError(f"--schema-version must be one of {known}, was {self.schema_version}")
        if self.rate is not None and not 0 < self.rate <= MAX_RATE:
            raise UsageError(
                f"--rate must be above 0 and at most {MAX_RATE:g} orders per second, "
                f"was {self.rate:g}"
            )
        if self.messages is not None and self.messages < 1:
            raise UsageError(f"--messages must be at least 1, was {self.messages}")
        if not 1 <= self.truth_books <= 10_000:
            raise UsageError(f"--truth-books must be from 1 to 10000, was {self.truth_books}")


def parse_moment(option: str, text: str) -> RunPoint:
    """Parse a share of the run (``0.5``) or a time of its day (``10:05`` or ``10:05:30``)."""
    text = text.strip()
    if ":" in text:
        try:
            moment = time.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is None:
            return RunPoint(time_of_day=moment, text=text)
    else:
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if 0 <= share < 1:
            return RunPoint(share=share, text=text)
    raise UsageError(
        f"{option} must be a share of the run (from 0 to below 1) or a time of day such as "
        f"10:05:30, was {text!r}"
    )


def parse_reset(text: str) -> InjectedReset:
    """Parse the time of a channel reset; the prefix ``sequence@`` resets its numbers too."""
    kind, at, moment = text.partition("@")
    if not at:
        return InjectedReset(ResetKind.CHANNEL, parse_moment("--reset-at", text))
    if kind not in [each.value for each in ResetKind]:
        raise UsageError(f"--reset-at: kind must be 'channel' or 'sequence', was {kind!r}")
    return InjectedReset(ResetKind(kind), parse_moment("--reset-at", moment))


def moment_ns(option: str, moment: RunPoint, midnight_ns: int, start_ns: int, end_ns: int) -> int:
    """Return the time of a point in a run, in nanoseconds since 1970."""
    if moment.share is not None:
        return start_ns + int((end_ns - start_ns) * moment.share)
    clock = moment.time_of_day
    assert clock is not None
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
    when = midnight_ns + seconds * SECOND + clock.microsecond * 1000
    if not start_ns <= when < end_ns:
        begin, end = (_clock(value - midnight_ns) for value in (start_ns, end_ns))
        raise UsageError(
            f"{option}: {moment.text} is outside the run: choose a time from {begin} to {end}"
        )
    return when


def _clock(since_midnight_ns: int) -> str:
    seconds = since_midnight_ns // SECOND
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
