"""Options of an ingest, and limits of its days and channels: each day is a folder per table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.units import iso_day

TARGET_BYTES = 64 * 1024 * 1024
SKEW_NS = SECOND

MAX_DAYS = 400
MAX_CHANNELS = 1_000
_NAMED = 3


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of an ingest."""

    target_bytes: int = TARGET_BYTES
    skew_ns: int = SKEW_NS
    channels: tuple[int, ...] | None = None
    schema_files: tuple[str, ...] = ()
    streams: tuple[tuple[str, str], ...] = ()
    """Streams of destinations set by the user, instead of detecting them."""
    feeds: tuple[tuple[str, str], ...] = ()
    skip_damaged: bool = False
    """Skip captures that cannot be read to their end, instead of failing."""


def check_options(options: IngestOptions) -> None:
    """Raise UsageError if an option is invalid."""
    if options.target_bytes < 1:
        raise UsageError(f"The range size must be at least 1 byte, was {options.target_bytes}.")
    if options.skew_ns < 0:
        raise UsageError(f"The feed skew must be at least 0 ns, was {options.skew_ns}.")
    if options.channels is not None and not options.channels:
        raise UsageError("The channel filter is empty: name at least one channel or omit it.")


def check_days(days: Collection[int]) -> None:
    """Reject an ingest of more than `MAX_DAYS` days, more than a year's archive has."""
    if len(days) > MAX_DAYS:
        named = [iso_day(day) for day in sorted(days)]
        raise UsageError(
            f"The captures have packets of more than {MAX_DAYS:,} days, from "
            f"{', '.join(named[:_NAMED])} to {', '.join(named[-_NAMED:])}; ingest fewer captures "
            "per run, or check their times with `pregao info CAPTURE` if these days are wrong."
        )


def check_channels(channels: Collection[int]) -> None:
    """Reject an ingest of more than `MAX_CHANNELS` channels, more than the exchange has."""
    if len(channels) > MAX_CHANNELS:
        named = [str(channel) for channel in sorted(channels)]
        raise UsageError(
            f"The captures have packets of more than {MAX_CHANNELS:,} channels, from "
            f"{', '.join(named[:_NAMED])} to {', '.join(named[-_NAMED:])}; select channels with "
            "--channel."
        )
