"""Web page of a market, from a lake or the live feed, served on localhost.

`lake_application` and `live_application` create the pages, `PageServer` serves one. They require
the extra ``pregao[ui]`` (Starlette, uvicorn, websockets), which is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.web.application import lake_application as lake_application
    from pregao.web.application import live_application as live_application
    from pregao.web.lake_market import LakeMarket as LakeMarket
    from pregao.web.live_market import LiveMarket as LiveMarket
    from pregao.web.serving import PageServer as PageServer

_HOMES = {
    "application": ["lake_application", "live_application"],
    "lake_market": ["LakeMarket"],
    "live_market": ["LiveMarket"],
    "serving": ["PageServer"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["LakeMarket", "LiveMarket", "PageServer", "lake_application", "live_application"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
