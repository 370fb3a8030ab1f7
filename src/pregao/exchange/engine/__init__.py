"""Matching engine: instruments, phases, orders, auctions, protections and surveillance.

A pure state machine: the caller passes commands (``commands``) and a time, and receives private
reports (``reports``) and units of market events (``events``). It has no clock and no feed, and
reads no files except the catalogs and schedules that the caller names.
"""

from pregao.exchange.engine.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.catalogue import bundled_catalogue, load_catalogue
from pregao.exchange.engine.commands import (
    CancelOrder,
    Command,
    ModifyOrder,
    NewOrder,
    SetGroupPhase,
)
from pregao.exchange.engine.engine import Engine
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.reports import Outcome
from pregao.exchange.engine.schedule import Schedule, default_schedule, load_schedule
from pregao.exchange.engine.terms import OrdType, Side, TimeInForce, TradingStatus
from pregao.exchange.engine.views import BookView

__all__ = [
    "AuctionRules",
    "BookView",
    "CancelOrder",
    "Command",
    "Engine",
    "Instrument",
    "ModifyOrder",
    "NewOrder",
    "OrdType",
    "Outcome",
    "Schedule",
    "SetGroupPhase",
    "Side",
    "TimeInForce",
    "TradingStatus",
    "bundled_catalogue",
    "default_schedule",
    "load_catalogue",
    "load_schedule",
    "parse_auction_rules",
]
