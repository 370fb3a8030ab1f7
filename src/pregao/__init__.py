"""Pregão: B3's electronic market in Python, from the wire to the lake.

What programs use is imported when it is first asked for: `Live` follows the feed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pregao._version import __version__

if TYPE_CHECKING:
    from pregao.live import Live

__all__ = ["Live", "__version__"]

_HOMES = {"Live": "pregao.live"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
