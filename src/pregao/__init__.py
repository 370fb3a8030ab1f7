"""Pregão: B3's electronic market in Python, from the wire to the lake.

The public API is here, in `pregao.entrypoint` and in `pregao.plot`; docs/api.md has examples.
Everything else is internal and may change. Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pregao._version import __version__
from pregao.extras import imported

if TYPE_CHECKING:
    from pregao import entrypoint as entrypoint
    from pregao import plot as plot
    from pregao.api.book import Book as Book
    from pregao.api.capture import Capture as Capture
    from pregao.api.capture import read as read
    from pregao.api.follow import follow as follow
    from pregao.api.lake import Lake as Lake
    from pregao.api.message import Message as Message
    from pregao.api.simulate import simulate as simulate
    from pregao.book.state import State as State
    from pregao.live.client import Live as Live

__all__ = [
    "Book",
    "Capture",
    "Lake",
    "Live",
    "Message",
    "State",
    "__version__",
    "entrypoint",
    "follow",
    "plot",
    "read",
    "simulate",
]

_HOMES = {
    "Book": "pregao.api.book",
    "Capture": "pregao.api.capture",
    "Lake": "pregao.api.lake",
    "Live": "pregao.live.client",
    "Message": "pregao.api.message",
    "State": "pregao.book.state",
    "follow": "pregao.api.follow",
    "read": "pregao.api.capture",
    "simulate": "pregao.api.simulate",
}


def __getattr__(name: str) -> Any:
    if name in ("entrypoint", "plot"):
        return import_module(f"pregao.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with imported():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
