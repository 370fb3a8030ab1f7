"""Order books: by price and priority, by position, by level, top of book, and their replay.

Names are imported on first use: only the replay and flat books need numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.book.audit import compare_books as compare_books
    from pregao.book.base import Book as Book
    from pregao.book.depth import PriceDepthBook as PriceDepthBook
    from pregao.book.faults import Fault as Fault
    from pregao.book.faults import FaultCode as FaultCode
    from pregao.book.faults import State as State
    from pregao.book.flat import FlatBook as FlatBook
    from pregao.book.levels import LevelsBook as LevelsBook
    from pregao.book.levels import TopOfBook as TopOfBook
    from pregao.book.position import PositionBook as PositionBook
    from pregao.book.priority import PriorityBook as PriorityBook
    from pregao.book.queue_order import price_rank as price_rank
    from pregao.book.queue_order import queue_order as queue_order
    from pregao.book.replay import BookKind as BookKind
    from pregao.book.replay import FullBook as FullBook
    from pregao.book.replay import Replay as Replay
    from pregao.book.rows import UpdateKind as UpdateKind
    from pregao.book.rows import UpdateRows as UpdateRows
    from pregao.book.ticks import Tick as Tick
    from pregao.book.ticks import TickMaker as TickMaker
    from pregao.book.updates import MessageKey as MessageKey
    from pregao.book.updates import Side as Side
    from pregao.book.views import Level as Level
    from pregao.book.views import Order as Order

_HOMES = {
    "audit": ["compare_books"],
    "base": ["Book"],
    "depth": ["PriceDepthBook"],
    "faults": ["Fault", "FaultCode", "State"],
    "flat": ["FlatBook"],
    "levels": ["LevelsBook", "TopOfBook"],
    "position": ["PositionBook"],
    "priority": ["PriorityBook"],
    "queue_order": ["price_rank", "queue_order"],
    "replay": ["BookKind", "FullBook", "Replay"],
    "rows": ["UpdateKind", "UpdateRows"],
    "ticks": ["Tick", "TickMaker"],
    "updates": ["MessageKey", "Side"],
    "views": ["Level", "Order"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
