"""Pregão for programs: captures, books, channels, lakes and markets in a few lines of Python.

`pregao` offers these names to users; it is documented in docs/api.md. What is here only joins the
packages below it. Names are loaded when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.api.ladders import Level as Level
    from pregao.api.ladders import Order as Order
    from pregao.api.lake import Lake as Lake
    from pregao.api.lake import LakeBook as LakeBook
    from pregao.book import State as State

_HOMES = {
    "pregao.api.ladders": ["Level", "Order"],
    "pregao.api.lake": ["Lake", "LakeBook"],
    "pregao.book": ["State"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["Lake", "LakeBook", "Level", "Order", "State"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(_HOME[name]), name)
