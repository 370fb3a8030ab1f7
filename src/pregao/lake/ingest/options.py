"""How an ingest is to be done."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.errors import UsageError

TARGET_BYTES = 64 * 1024 * 1024
SKEW_NS = SECOND


@dataclass(frozen=True, slots=True)
class Options:
    """How an ingest is to be done."""

    target_bytes: int = TARGET_BYTES
    skew_ns: int = SKEW_NS
    channels: tuple[int, ...] | None = None
    schema_files: tuple[str, ...] = ()
    streams: tuple[tuple[str, str], ...] = ()
    """What the user says that destinations carry."""
    feeds: tuple[tuple[str, str], ...] = ()
    skip_damaged: bool = False
    """Leave captures out that cannot be read to their end, instead of failing."""


def check_options(options: Options) -> None:
    """Refuse what makes no sense."""
    if options.target_bytes < 1:
        raise UsageError("The size of a range must be at least one byte.")
    if options.skew_ns < 0:
        raise UsageError("The skew of the feeds cannot be negative.")
    if options.channels is not None and not options.channels:
        raise UsageError("Name at least one channel, or leave the filter out.")
