"""A bound on the work that a page does at once: others wait, and too many are turned away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from pregao.errors import PregaoError

T = TypeVar("T")
RETRY_S = 1
"""Seconds after which a request that was turned away may be tried again."""


class BusyError(PregaoError):
    """Too many requests wait already."""


class Budget:
    """Runs blocking work in threads, ``at_once`` at most, with ``max_waiting`` waiting."""

    def __init__(self, at_once: int = 4, max_waiting: int = 32) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._open = 0
        self._max_open = at_once + max_waiting

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of some work, which begins when it is its turn.

        Raises:
            BusyError: Too many wait already; nothing was done.
        """
        if self._open >= self._max_open:
            raise BusyError("The page has too much to do; ask again in a second.")
        self._open += 1
        try:
            async with self._free:
                return await run_in_threadpool(work, *arguments)
        finally:
            self._open -= 1
