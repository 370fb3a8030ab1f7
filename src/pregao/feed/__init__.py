"""Following a channel: book updates, healing by snapshots, and statistics.

The rules do not depend on how a channel is read: `Follower` processes packets in order, its bulk
twin `DayFollower` a day as columns. `Channel` follows a channel live, over its feeds: datagrams and
times in, events (`channel_events`) and actions out; `PumpedChannel` does the same for many
datagrams per call. `LegacyChannel` follows a channel of the legacy feed, with the same book states.
None of them uses files, sockets or Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.feed.book_view import ChannelBook as ChannelBook
    from pregao.feed.channel import Channel as Channel
    from pregao.feed.channel_settings import ChannelCounters as ChannelCounters
    from pregao.feed.channel_settings import ChannelSettings as ChannelSettings
    from pregao.feed.channel_settings import ChannelState as ChannelState
    from pregao.feed.channel_settings import Join as Join
    from pregao.feed.channel_settings import Leave as Leave
    from pregao.feed.day import ChannelDay as ChannelDay
    from pregao.feed.day import DayFollower as DayFollower
    from pregao.feed.day import DayOutput as DayOutput
    from pregao.feed.definitions import Instrument as Instrument
    from pregao.feed.event_batch import EventBatch as EventBatch
    from pregao.feed.follower import Follower as Follower
    from pregao.feed.follower import Listener as Listener
    from pregao.feed.healing import Gap as Gap
    from pregao.feed.healing import Healed as Healed
    from pregao.feed.holes import Hole as Hole
    from pregao.feed.holes import Holes as Holes
    from pregao.feed.legacy_channel import LegacyChannel as LegacyChannel
    from pregao.feed.legacy_channel import LegacyChannelSettings as LegacyChannelSettings
    from pregao.feed.legacy_follower import LegacyFollower as LegacyFollower
    from pregao.feed.legacy_meaning import LegacyTrade as LegacyTrade
    from pregao.feed.legacy_state import LegacyState as LegacyState
    from pregao.feed.meaning import snapshot_updates as snapshot_updates
    from pregao.feed.meaning import update_columns as update_columns
    from pregao.feed.meaning import update_of as update_of
    from pregao.feed.pump import Datagrams as Datagrams
    from pregao.feed.pumped_channel import PumpedChannel as PumpedChannel
    from pregao.feed.stale_spans import StaleSpan as StaleSpan
    from pregao.feed.statistics import PhaseChanges as PhaseChanges
    from pregao.feed.statistics import StatisticReader as StatisticReader

_HOMES = {
    "book_view": ["ChannelBook"],
    "channel": ["Channel"],
    "channel_settings": ["ChannelCounters", "ChannelSettings", "ChannelState", "Join", "Leave"],
    "definitions": ["Instrument"],
    "event_batch": ["EventBatch"],
    "day": ["ChannelDay", "DayFollower", "DayOutput"],
    "follower": ["Follower", "Listener"],
    "healing": ["Gap", "Healed"],
    "holes": ["Hole", "Holes"],
    "legacy_channel": ["LegacyChannel", "LegacyChannelSettings"],
    "legacy_follower": ["LegacyFollower"],
    "legacy_meaning": ["LegacyTrade"],
    "legacy_state": ["LegacyState"],
    "meaning": ["snapshot_updates", "update_columns", "update_of"],
    "pump": ["Datagrams"],
    "pumped_channel": ["PumpedChannel"],
    "stale_spans": ["StaleSpan"],
    "statistics": ["PhaseChanges", "StatisticReader"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
