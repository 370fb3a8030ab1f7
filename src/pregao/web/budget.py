"""Limit of concurrent work of a page: further requests wait, and too many are rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from pregao.errors import PregaoError

T = TypeVar("T")
RETRY_S = 1
"""Seconds after which to retry a rejected request."""


class BusyError(PregaoError):
    """Too many requests are waiting."""


class Budget:
    """Runs blocking work in at most ``at_once`` threads, with at most ``max_waiting`` queued."""

    def __init__(self, at_once: int = 4, max_waiting: int = 32) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._open = 0
        self._max_open = at_once + max_waiting

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread once one is free, and return its result.

        Raises:
            BusyError: Too many calls are waiting; `work` was not run.
        """
        if self._open >= self._max_open:
            raise BusyError("Too many requests are waiting; try again in a second.")
        self._open += 1
        try:
            async with self._free:
                return await run_in_threadpool(work, *arguments)
        finally:
            self._open -= 1
