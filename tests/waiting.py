"""Wait until a condition holds, with a timeout that suits busy machines."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0
"""Timeout of waits: many times longer than any step of a test takes."""


def until(
    question: Callable[[], Any],
    state: Callable[[], object] | None = None,
    *,
    seconds: float = PATIENCE_S,
    every: float = 0.02,
) -> Any:
    """Call ``question`` until its result is true, and return the result; fail after a timeout.

    The failure shows the result of ``state``, or else the last result of ``question``.
    """
    end = time.monotonic() + seconds
    while not (found := question()):
        if time.monotonic() > end:
            shown = found if state is None else state()
            raise AssertionError(f"It did not come true in {seconds:g} s; what is: {shown!r}.")
        time.sleep(every)
    return found
