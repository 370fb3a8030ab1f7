"""Waiting until something is so: patiently, for machines that have other things to do."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0
"""Many times what anything takes here: a longer wait is a failure."""


def until(
    question: Callable[[], Any],
    state: Callable[[], object] | None = None,
    *,
    seconds: float = PATIENCE_S,
    every: float = 0.02,
) -> Any:
    """Call it until the result is true, and return that; fail with the state if it never is.

    The state is the result of ``state``, or else the last result.
    """
    end = time.monotonic() + seconds
    while not (found := question()):
        if time.monotonic() > end:
            shown = found if state is None else state()
            raise AssertionError(f"It did not come true in {seconds:g} s; what is: {shown!r}.")
        time.sleep(every)
    return found
