"""Python's garbage collector, kept out of the way of a feed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = (100_000, 50, 100)
"""Events are gone as soon as nobody holds them, without the collector: so many objects more than
there were are seldom reached."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector look at what is made from here on, and only if that becomes much.

    To look through everything that a process has loaded takes a tenth of a second, and to look at
    the newest objects a quarter of a millisecond, every time that some hundred events are made.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
