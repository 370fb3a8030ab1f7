"""Simulated traders: a realistic flow of commands, drawn from one seed.

A profile defines how they behave, a pace when they act; market operations (bands, news, halts,
busts, settlement) are part of the day. They read the engine's market and use no feed.
"""

from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.draws import Draws
from pregao.exchange.traders.operations import Operations
from pregao.exchange.traders.pace import Pace
from pregao.exchange.traders.profiles import (
    FLOW_NUMBERS,
    Profile,
    bundled_profiles,
    load_profile,
)

__all__ = [
    "FLOW_NUMBERS",
    "Crowd",
    "Draws",
    "Operations",
    "Pace",
    "Profile",
    "bundled_profiles",
    "load_profile",
]
