"""Options of an ingest."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.errors import UsageError

TARGET_BYTES = 64 * 1024 * 1024
SKEW_NS = SECOND


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
