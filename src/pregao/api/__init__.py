"""The public Python API: captures, books, channels, lakes and simulated markets.

`pregao` exports these names to users; docs/api.md documents them. This package only combines the
packages below it. Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pregao.extras import imported

if TYPE_CHECKING:
    from pregao.api.book import Book as Book
    from pregao.api.capture import Capture as Capture
    from pregao.api.capture import read as read
    from pregao.api.follow import follow as follow
    from pregao.api.book import Level as Level
    from pregao.api.book import Order as Order
    from pregao.api.lake import Lake as Lake
    from pregao.api.lake import LakeBook as LakeBook
    from pregao.api.message import Message as Message
    from pregao.api.message import Protocol as Protocol
    from pregao.api.simulate import simulate as simulate
    from pregao.book import State as State

_HOMES = {
    "pregao.api.book": ["Book"],
    "pregao.api.capture": ["Capture", "read"],
    "pregao.api.follow": ["follow"],
    "pregao.api.book": ["Level", "Order"],
    "pregao.api.lake": ["Lake", "LakeBook"],
    "pregao.api.message": ["Message", "Protocol"],
    "pregao.api.simulate": ["simulate"],
    "pregao.book": ["State"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Book",
    "Capture",
    "Lake",
    "LakeBook",
    "Level",
    "Message",
    "Order",
    "Protocol",
    "State",
    "follow",
    "read",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    with imported():
        return getattr(importlib.import_module(_HOME[name]), name)
