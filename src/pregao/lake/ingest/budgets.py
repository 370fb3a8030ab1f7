"""Limits of days and channels per ingest: each day is a folder in every table."""

from __future__ import annotations

from collections.abc import Collection

from pregao.errors import UsageError
from pregao.lake.store.parquet import iso

MAX_DAYS = 400
MAX_CHANNELS = 1_000
_NAMED = 3


def check_days(days: Collection[int]) -> None:
    """Reject an ingest of more than `MAX_DAYS` days, more than a year's archive has."""
    if len(days) > MAX_DAYS:
        named = [iso(day) for day in sorted(days)]
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
