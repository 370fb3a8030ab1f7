"""How many days and channels one ingest may have: each day is a folder in every table."""

from __future__ import annotations

from collections.abc import Collection

from pregao.errors import UsageError
from pregao.lake.store import iso

MAX_DAYS = 400
MAX_CHANNELS = 1_000
_NAMED = 3


def check_days(days: Collection[int]) -> None:
    """Refuse an ingest of more days than an archive of a year has."""
    if len(days) > MAX_DAYS:
        named = [iso(day) for day in sorted(days)]
        raise UsageError(
            f"The captures have packets of more than {MAX_DAYS:,} days, from "
            f"{', '.join(named[:_NAMED])} to {', '.join(named[-_NAMED:])}; ingest fewer captures "
            "at once, and look at their times if these days are not theirs (`pregao info CAPTURE`)."
        )


def check_channels(channels: Collection[int]) -> None:
    """Refuse an ingest of more channels than the exchange has."""
    if len(channels) > MAX_CHANNELS:
        named = [str(channel) for channel in sorted(channels)]
        raise UsageError(
            f"The captures have packets of more than {MAX_CHANNELS:,} channels, from "
            f"{', '.join(named[:_NAMED])} to {', '.join(named[-_NAMED:])}; name those that are "
            "wanted with --channel."
        )
