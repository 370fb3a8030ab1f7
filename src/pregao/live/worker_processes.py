"""Worker processes: groups of channels, each followed in a separate process.

A busy Python thread in the same process delays a feed handler: the two take turns at the
interpreter. Here the handlers run in other processes, which send only requested data, as copies.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from pregao.errors import NetworkError, PregaoError, UsageError
from pregao.events import ChannelEvent
from pregao.live.config import LiveConfig
from pregao.live.handler import FeedHandler
from pregao.live.health import FeedReport
from pregao.live.items import LiveItem
from pregao.live.process_tuning import rare_collection
from pregao.live.subscriptions import DEPTH, MAX_PENDING, Subscription

T = TypeVar("T")

_START_S = 60.0
_END_S = 10.0
_SWITCH_S = 0.0005
"""Interpreter switch interval: the feed's thread must not wait long for the one that answers."""


class FeedProcesses:
    """Feed handlers of groups of channels, one worker process each; they run until `stop`."""

    def __init__(
        self,
        groups: Sequence[LiveConfig],
        *,
        spin: bool | None = None,
        compiled: bool | None = None,
    ) -> None:
        """Start the workers and open all sockets, so that network errors are raised here."""
        if not groups:
            raise UsageError("There are no channels to follow: name at least one group.")
        self._members = [_Member(group, spin, compiled) for group in groups]
        self._subscriptions = 0
        self._lock = threading.Lock()
        self.failure: PregaoError | None = None
        """The error that ended one of the workers, if any."""
        try:
            for member in self._members:
                refused = member.answer(_START_S)
                if refused is not None:
                    raise refused
        except BaseException:
            self.stop()
            raise

    def call(self, question: Callable[[FeedHandler], T]) -> T:
        """Run a function in every handler and merge the results.

        It is sent to other processes, so it must be defined at the top level of a module. Reports,
        sets and lists can be merged.
        """
        answer: T = _together(self._ask(question))
        return answer

    def _ask(self, question: Callable[[FeedHandler], T]) -> list[T]:
        with self._lock:
            if self.failure is not None:
                raise self.failure
            try:
                for member in self._members:
                    member.ask(question)
                answers = [member.answer() for member in self._members]
            except PregaoError as error:
                self.failure = error
                raise
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def subscribe(
        self,
        symbols: Iterable[str] | None = None,
        *,
        kinds: tuple[type[ChannelEvent], ...] | None = None,
        depth: int = DEPTH,
        max_pending: int = MAX_PENDING,
    ) -> ProcessSubscription:
        """Subscribe to the events of some instruments, or all."""
        with self._lock:
            self._subscriptions += 1
            number = self._subscriptions
        wanted = None if symbols is None else frozenset(symbols)
        self._ask(_Begin(number, wanted, kinds, depth, max_pending))
        return ProcessSubscription(self, number)

    def stop(self) -> None:
        """Stop all workers, and wait until they have ended."""
        for member in self._members:
            member.close()
        for member in self._members:
            member.join()


class ProcessSubscription:
    """Events of some instruments in worker processes, queued until they are taken."""

    overflowed = False
    """Always False: after an overflow, `take` itself returns `ItemsMissed` and fresh books."""

    def __init__(self, processes: FeedProcesses, number: int) -> None:
        self._processes = processes
        self._number = number

    def take(self) -> list[LiveItem]:
        """Return the items queued since the last call, process by process."""
        return self._processes.call(_Take(self._number))

    def close(self) -> None:
        """End the subscription; `take` then returns nothing. May be called more than once."""
        self._processes.call(_End(self._number))


class _Member:
    """A worker process and the pipe to it."""

    def __init__(self, config: LiveConfig, spin: bool | None, compiled: bool | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._numbers = ", ".join(str(each.number) for each in config.channels)
        self._link, other = context.Pipe()
        self._process = context.Process(
            target=_follow, args=(config, spin, compiled, other), name="pregao-feed", daemon=True
        )
        self._process.start()
        other.close()

    def ask(self, question: Callable[[FeedHandler], Any]) -> None:
        """Send a function to call; `answer` must be called next."""
        try:
            self._link.send(question)
        except OSError:
            raise self._ended() from None

    def answer(self, timeout_s: float | None = None) -> Any:
        """Return the result of the last call; an exception if it raised one."""
        try:
            if not self._link.poll(timeout_s):
                raise NetworkError(
                    f"The worker process of channel {self._numbers} does not respond."
                )
            return self._link.recv()
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> PregaoError:
        return NetworkError(f"The worker process of channel {self._numbers} has ended.")

    def close(self) -> None:
        """Close the pipe, which ends the process."""
        with contextlib.suppress(OSError):
            self._link.close()

    def join(self) -> None:
        """Wait until the process has ended; kill it if it takes too long."""
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _follow(config: LiveConfig, spin: bool | None, compiled: bool | None, link: Connection) -> None:
    """Follow channels and serve calls until the parent process closes the pipe."""
    # The parent process ends this one; Ctrl-C in a terminal goes to all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_S)
    try:
        handler = FeedHandler(config, spin=spin, compiled=compiled)
    except PregaoError as error:
        link.send(error)
        return
    with rare_collection():
        handler.start()
        link.send(None)
        try:
            _answer_all(handler, link)
        finally:
            handler.stop()


def _answer_all(handler: FeedHandler, link: Connection) -> None:
    """Serve calls until the parent process closes the pipe."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            question = link.recv()
            try:
                answer = _answer(handler, question)
            except Exception as error:
                answer = error
            link.send(answer)


def _answer(handler: FeedHandler, question: Callable[[FeedHandler], Any]) -> Any:
    # This thread takes queued items, so that the feed's thread is not interrupted.
    if isinstance(question, _Take):
        return question(handler)
    return handler.call(question)


_subscribed: dict[int, Subscription] = {}
"""In a worker process: the subscriptions of the parent process."""


class _Begin:
    """A call that starts a subscription."""

    def __init__(self, number: int, *values: Any) -> None:
        self._number = number
        self._values = values

    def __call__(self, handler: FeedHandler) -> None:
        symbols, kinds, depth, capacity = self._values
        subscription = Subscription(symbols, kinds=kinds, depth=depth, max_pending=capacity)
        _subscribed[self._number] = subscription
        subscription.begin(handler)


class _Take:
    """A call that returns the queued items of a subscription."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, handler: FeedHandler) -> list[LiveItem]:
        subscription = _subscribed.get(self._number)
        if subscription is None:
            return []
        items = subscription.take()
        if subscription.overflowed:
            handler.call(subscription.refresh)
            items += subscription.take()
        return items


class _End:
    """A call that ends a subscription."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, handler: FeedHandler) -> list[LiveItem]:
        subscription = _subscribed.pop(self._number, None)
        if subscription is not None:
            handler.remove_listener(subscription)
        return []


def _together(answers: list[Any]) -> Any:
    """Merge the results of several processes."""
    first, *others = answers
    if not others:
        return first
    if isinstance(first, FeedReport):
        return FeedReport.concat(answers)
    if isinstance(first, set):
        return set().union(*answers)
    if isinstance(first, list):
        return [each for answer in answers for each in answer]
    raise UsageError(
        f"Results of type {type(first).__name__} from several processes cannot be merged: "
        "return a report, a set or a list."
    )
