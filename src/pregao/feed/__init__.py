"""A channel followed: what its messages mean for books, which snapshot heals what, statistics.

What is here holds whoever reads the channel: `Follower` takes packets as they come, its bulk twin
`DayFollower` takes a day as columns. Neither knows of files, sockets or Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.feed.day import ChannelDay as ChannelDay
    from pregao.feed.day import DayFollower as DayFollower
    from pregao.feed.day import DayOutput as DayOutput
    from pregao.feed.follower import Follower as Follower
    from pregao.feed.follower import Listener as Listener
    from pregao.feed.healing import Gap as Gap
    from pregao.feed.healing import Healed as Healed
    from pregao.feed.holes import Hole as Hole
    from pregao.feed.holes import Holes as Holes
    from pregao.feed.meaning import snapshot_updates as snapshot_updates
    from pregao.feed.meaning import update_columns as update_columns
    from pregao.feed.meaning import update_of as update_of
    from pregao.feed.stale_spans import StaleSpan as StaleSpan
    from pregao.feed.statistics import PhaseChanges as PhaseChanges
    from pregao.feed.statistics import StatisticReader as StatisticReader

_HOMES = {
    "day": ["ChannelDay", "DayFollower", "DayOutput"],
    "follower": ["Follower", "Listener"],
    "healing": ["Gap", "Healed"],
    "holes": ["Hole", "Holes"],
    "meaning": ["snapshot_updates", "update_columns", "update_of"],
    "stale_spans": ["StaleSpan"],
    "statistics": ["PhaseChanges", "StatisticReader"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
