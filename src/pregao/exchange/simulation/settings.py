"""What a simulation is to be: its settings, and how people write them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date, time
from enum import StrEnum
from pathlib import Path

from pregao.clock import HOUR, MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.line_faults import STREAMS, FaultRates

SCHEMA_VERSIONS = (7, 8, 9, 10, 15, 16)
"""The versions of the feed that can be written."""
TRADE_DATE = date(2026, 5, 21)
"""The day that is simulated unless another one is given: the same command gives the same bytes."""
LONGEST_NS = 24 * HOUR
MOST_INSTRUMENTS = 100_000
MOST_RATE = 1_000_000.0

_UNITS = {"h": HOUR, "m": MINUTE, "min": MINUTE, "s": SECOND, "ms": MILLISECOND}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|h|m|s)")


class Compression(StrEnum):
    """How captures are compressed."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def ending(self) -> str:
        """What the names of such files end in."""
        return {"none": "", "gzip": ".gz", "zstd": ".zst"}[self.value]


class ResetKind(StrEnum):
    """What is reset: the channel's books, or its sequence numbers too."""

    CHANNEL = "channel"
    SEQUENCE = "sequence"


class LegacyDepth(StrEnum):
    """Which books a legacy feed (UMDF FIX/FAST) beside the binary one shows."""

    ORDERS = "orders"
    PRICES = "prices"
    TOP = "top"

    @property
    def market_depth(self) -> int | None:
        """How many price levels; None for all orders."""
        return {"orders": None, "prices": 5, "top": 1}[self.value]


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of a run: a share of it, or a time of its day."""

    share: float | None = None
    time_of_day: time | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Reset:
    """A reset to be injected."""

    kind: ResetKind
    moment: Moment


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a run depends on: the same settings give the same bytes."""

    profile: str
    out: Path
    seed: int = 1
    instruments: int | None = None
    """How many; None takes 40 of the catalogue, or all of a file."""
    duration_ns: int = 30 * MINUTE
    schema_version: int = 16
    trade_date: date = TRADE_DATE
    rate: float | None = None
    """Mean orders a second; None takes the profile's, or what the messages need."""
    messages: int | None = None
    """The run ends after so many incremental messages, over all channels."""
    faults: dict[str, FaultRates] = field(
        default_factory=lambda: dict.fromkeys(STREAMS, FaultRates())
    )
    late_join: Moment | None = None
    """Captures begin here; None captures everything."""
    resets: tuple[Reset, ...] = ()
    instruments_file: Path | None = None
    schedule_file: Path | None = None
    compression: Compression = Compression.NONE
    books: int = 10
    """How many times the books are written to the truth, the end included."""
    force: bool = False
    legacy: LegacyDepth | None = None
    """Which books a legacy feed beside the binary one shows; None without one."""

    def __post_init__(self) -> None:
        if self.instruments is not None and not 1 <= self.instruments <= MOST_INSTRUMENTS:
            raise UsageError(
                f"--instruments: {self.instruments} is not from 1 to {MOST_INSTRUMENTS}"
            )
        if not SECOND <= self.duration_ns <= LONGEST_NS:
            raise UsageError("--duration: a run lasts from 1s to 24h")
        if self.schema_version not in SCHEMA_VERSIONS:
            known = ", ".join(map(str, SCHEMA_VERSIONS))
            raise UsageError(f"--schema-version: {self.schema_version} is not one of {known}")
        if self.rate is not None and not 0 < self.rate <= MOST_RATE:
            raise UsageError(
                f"--rate: {self.rate:g} orders a second is not above 0 and up to {MOST_RATE:g}"
            )
        if self.messages is not None and self.messages < 1:
            raise UsageError(f"--messages: {self.messages} is not at least 1")
        if not 1 <= self.books <= 10_000:
            raise UsageError(f"--books: {self.books} is not from 1 to 10000")


def parse_duration(text: str) -> int:
    """Read a span such as ``30m``, ``1h30m``, ``45s`` or ``500ms`` as nanoseconds."""
    compact = text.strip().lower()
    parts = list(_PART.finditer(compact))
    if not parts or "".join(part.group(0) for part in parts) != compact:
        raise UsageError(f"--duration: {text!r} is not a span of time, such as 30m, 1h30m or 45s")
    return round(sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts))


def parse_moment(option: str, text: str) -> Moment:
    """Read a share of the run (``0.5``) or a time of its day (``10:05`` or ``10:05:30``)."""
    text = text.strip()
    if ":" in text:
        try:
            moment = time.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is None:
            return Moment(time_of_day=moment, text=text)
    else:
        try:
            share = float(text)
        except ValueError:
            share = math.nan
        if 0 <= share < 1:
            return Moment(share=share, text=text)
    raise UsageError(
        f"{option}: {text!r} is neither a share of the run (from 0 to below 1) "
        "nor a time of day such as 10:05:30"
    )


def parse_reset(text: str) -> Reset:
    """Read a moment at which a channel is reset, or with ``sequence@`` ahead its numbers too."""
    kind, at, moment = text.partition("@")
    if not at:
        return Reset(ResetKind.CHANNEL, parse_moment("--reset-at", text))
    if kind not in [each.value for each in ResetKind]:
        raise UsageError(f"--reset-at: {kind!r} is neither 'channel' nor 'sequence'")
    return Reset(ResetKind(kind), parse_moment("--reset-at", moment))


def moment_ns(option: str, moment: Moment, midnight_ns: int, start_ns: int, end_ns: int) -> int:
    """The time of a moment in a run, in nanoseconds since 1970."""
    if moment.share is not None:
        return start_ns + int((end_ns - start_ns) * moment.share)
    clock = moment.time_of_day
    assert clock is not None
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
    when = midnight_ns + seconds * SECOND + clock.microsecond * 1000
    if not start_ns <= when < end_ns:
        begin, end = (_clock(value - midnight_ns) for value in (start_ns, end_ns))
        raise UsageError(
            f"{option}: {moment.text} is outside of the run, which goes from {begin} to {end}"
        )
    return when


def _clock(since_midnight_ns: int) -> str:
    seconds = since_midnight_ns // SECOND
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
