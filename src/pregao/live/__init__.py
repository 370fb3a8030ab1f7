"""Live market data: receive, record and replay the feed, and report its health.

`FeedHandler` follows the channels of a configuration in a thread; `Live` offers the same to
programs with ``async for``. `Recorder` writes received packets to captures, `Replayer` sends
captures again. Public names are imported on first access.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.live.client import Live as Live
    from pregao.live.config import Line as Line
    from pregao.live.config import LiveConfig as LiveConfig
    from pregao.live.config import parse_config as parse_config
    from pregao.live.config import read_config as read_config
    from pregao.live.handler import FeedHandler as FeedHandler
    from pregao.live.health import ChannelReport as ChannelReport
    from pregao.live.health import FeedReport as FeedReport
    from pregao.live.health import metrics_text as metrics_text
    from pregao.live.health import report as report
    from pregao.live.health import serve as serve
    from pregao.live.items import BookCopy as BookCopy
    from pregao.live.items import BookRefresh as BookRefresh
    from pregao.live.items import ItemsMissed as ItemsMissed
    from pregao.live.items import LiveEvent as LiveEvent
    from pregao.live.items import LiveItem as LiveItem
    from pregao.live.live_channel import EventListener as EventListener
    from pregao.live.live_channel import LineState as LineState
    from pregao.live.market_watch import InstrumentPage as InstrumentPage
    from pregao.live.market_watch import InstrumentRow as InstrumentRow
    from pregao.live.market_watch import MarketWatch as MarketWatch
    from pregao.live.process_tuning import check_manner as check_manner
    from pregao.live.process_tuning import rare_collection as rare_collection
    from pregao.live.recorder import Recorder as Recorder
    from pregao.live.recorder import RecordSettings as RecordSettings
    from pregao.live.replayer import OnProgress as OnProgress
    from pregao.live.replayer import ReplayCounts as ReplayCounts
    from pregao.live.replayer import Replayer as Replayer
    from pregao.live.replayer import ReplaySpeed as ReplaySpeed
    from pregao.live.replayer import destinations_of as destinations_of
    from pregao.live.replayer import parse_speed as parse_speed
    from pregao.live.replayer import targets_from as targets_from
    from pregao.live.subscriptions import Subscription as Subscription
    from pregao.live.worker_processes import FeedProcesses as FeedProcesses

_HOMES = {
    "client": ["Live"],
    "config": ["Line", "LiveConfig", "parse_config", "read_config"],
    "handler": ["FeedHandler"],
    "health": ["ChannelReport", "FeedReport", "metrics_text", "report", "serve"],
    "items": ["BookCopy", "BookRefresh", "ItemsMissed", "LiveEvent", "LiveItem"],
    "live_channel": ["EventListener", "LineState"],
    "market_watch": ["InstrumentPage", "InstrumentRow", "MarketWatch"],
    "process_tuning": ["check_manner", "rare_collection"],
    "recorder": ["RecordSettings", "Recorder"],
    "replayer": [
        "OnProgress",
        "ReplayCounts",
        "ReplaySpeed",
        "Replayer",
        "destinations_of",
        "parse_speed",
        "targets_from",
    ],
    "subscriptions": ["Subscription"],
    "worker_processes": ["FeedProcesses"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
