"""The page: a market in the browser, served on this machine.

`lake_application` makes the page, `PageServer` serves it. They need the ``pregao[ui]`` (Starlette,
uvicorn, websockets), which is loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.web.application import lake_application as lake_application
    from pregao.web.lake_market import LakeMarket as LakeMarket
    from pregao.web.serving import PageServer as PageServer

_HOMES = {
    "application": ["lake_application"],
    "lake_market": ["LakeMarket"],
    "serving": ["PageServer"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["LakeMarket", "PageServer", "lake_application"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
