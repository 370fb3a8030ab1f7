"""Live market data: receive, record and replay the feed, and report its health.

`FeedHandler` follows the channels of a configuration in a thread; `Live` offers the same to
programs with ``async for``. `Recorder` writes received packets to captures, `Replayer` sends
captures again. Public names are imported on first access.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.live.items import BookCopy as BookCopy
    from pregao.live.items import BookRefresh as BookRefresh
    from pregao.live.items import ItemsMissed as ItemsMissed
    from pregao.live.items import LiveEvent as LiveEvent
    from pregao.live.items import LiveItem as LiveItem
    from pregao.live.client import Live as Live
    from pregao.live.process_tuning import rare_collection as rare_collection
    from pregao.live.config import Line as Line
    from pregao.live.config import LiveConfig as LiveConfig
    from pregao.live.config import parse_config as parse_config
    from pregao.live.config import read_config as read_config
    from pregao.live.live_channel import EventListener as EventListener
    from pregao.live.live_channel import LineState as LineState
    from pregao.live.handler import FeedHandler as FeedHandler
    from pregao.live.process_tuning import check_manner as check_manner
    from pregao.live.worker_processes import FeedProcesses as FeedProcesses
    from pregao.live.recorder import Recorder as Recorder
    from pregao.live.recorder import RecordSettings as RecordSettings
    from pregao.live.replayer import OnProgress as OnProgress
    from pregao.live.replayer import ReplayCounts as ReplayCounts
    from pregao.live.replayer import Replayer as Replayer
    from pregao.live.replayer import ReplaySpeed as ReplaySpeed
    from pregao.live.replayer import destinations_of as destinations_of
    from pregao.live.replayer import parse_speed as parse_speed
    from pregao.live.replayer import targets_from as targets_from
    from pregao.live.health import ChannelReport as ChannelReport
    from pregao.live.health import FeedReport as FeedReport
    from pregao.live.health import metrics_text as metrics_text
    from pregao.live.health import report as report
    from pregao.live.health import serve as serve
    from pregao.live.subscriptions import Subscription as Subscription
    from pregao.live.market_watch import InstrumentPage as InstrumentPage
    from pregao.live.market_watch import InstrumentRow as InstrumentRow
    from pregao.live.market_watch import MarketWatch as MarketWatch

_HOMES = {
    "books": ["BookCopy", "FreshBook", "Item", "LiveEvent", "Missed"],
    "client": ["Live"],
    "collector": ["seldom_collected"],
    "config": ["Line", "LiveConfig", "parse_config", "read_config"],
    "followed": ["LineState", "Listener"],
    "handler": ["FeedHandler"],
    "priority": ["check_manner"],
    "processes": ["FeedProcesses"],
    "recording": ["RecordSettings", "Recorder"],
    "replaying": [
        "ReplayCounts",
        "Replayer",
        "Speed",
        "Told",
        "destinations_of",
        "parse_speed",
        "targets_from",
    ],
    "reports": ["ChannelReport", "Report", "metrics_text", "report", "serve"],
    "subscriptions": ["Subscription"],
    "watching": ["InstrumentPage", "InstrumentRow", "Watcher"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
