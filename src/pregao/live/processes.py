"""Groups of channels, each followed in a process of its own, apart from the program that asks.

A busy Python thread beside a feed handler delays it: the two take turns at the interpreter. Here
the handlers are in other processes, and only what is asked for comes over, as copies.
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
from pregao.feed.channel_events import Event
from pregao.live.books import Item
from pregao.live.collector import seldom_collected
from pregao.live.config import LiveConfig
from pregao.live.handler import FeedHandler
from pregao.live.reports import Report
from pregao.live.subscriptions import DEPTH, MOST_WAITING, Subscription

T = TypeVar("T")

_START_S = 60.0
_END_S = 10.0
_SWITCH_S = 0.0005
"""The thread that follows must not wait long for the one that answers."""


class FeedProcesses:
    """Feed handlers of groups of channels, a process each; they run until they are stopped."""

    def __init__(
        self,
        groups: Sequence[LiveConfig],
        *,
        spin: bool | None = None,
        compiled: bool | None = None,
    ) -> None:
        """All sockets are open behind this: what the network refuses is told at once."""
        if not groups:
            raise UsageError("There is no channel to follow.")
        self._members = [_Member(group, spin, compiled) for group in groups]
        self._subscriptions = 0
        self._lock = threading.Lock()
        self.failure: PregaoError | None = None
        """What ended one of them, if anything did."""
        try:
            for member in self._members:
                refused = member.answer(_START_S)
                if refused is not None:
                    raise refused
        except BaseException:
            self.stop()
            raise

    def ask(self, question: Callable[[FeedHandler], T]) -> T:
        """Have a question answered by every handler, and put the answers together.

        It goes to other processes, so it must be a function of a module. Reports, sets and lists
        can be put together.
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
                told = [member.answer() for member in self._members]
            except PregaoError as error:
                self.failure = error
                raise
        for answer in told:
            if isinstance(answer, Exception):
                raise answer
        return told

    def subscribe(
        self,
        symbols: Iterable[str] | None = None,
        *,
        kinds: tuple[type[Event], ...] | None = None,
        depth: int = DEPTH,
        most_waiting: int = MOST_WAITING,
    ) -> ProcessSubscription:
        """Hear what happens to some instruments, or all."""
        self._subscriptions += 1
        number = self._subscriptions
        wanted = None if symbols is None else frozenset(symbols)
        self._ask(_Begin(number, wanted, kinds, depth, most_waiting))
        return ProcessSubscription(self, number)

    def stop(self) -> None:
        """End all of them; waits until they have."""
        for member in self._members:
            member.close()
        for member in self._members:
            member.join()


class ProcessSubscription:
    """What happens to some instruments in other processes, until it is taken."""

    behind = False
    """Who was too slow is told so and gets fresh books without asking."""

    def __init__(self, processes: FeedProcesses, number: int) -> None:
        self._processes = processes
        self._number = number

    def take(self) -> list[Item]:
        """What happened since it was taken last, process by process."""
        return self._processes.ask(_Take(self._number))


class _Member:
    """A process, and the link to it."""

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
        """Send a question over; its answer is to be taken next."""
        try:
            self._link.send(question)
        except OSError:
            raise self._gone() from None

    def answer(self, timeout_s: float | None = None) -> Any:
        """The answer to what was asked; an exception if that was one."""
        try:
            if not self._link.poll(timeout_s):
                raise NetworkError(f"The process of channel {self._numbers} does not answer.")
            return self._link.recv()
        except (EOFError, OSError):
            raise self._gone() from None

    def _gone(self) -> PregaoError:
        return NetworkError(f"The process that followed channel {self._numbers} has ended.")

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(OSError):
            self._link.close()

    def join(self) -> None:
        """Wait until it has ended."""
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _follow(config: LiveConfig, spin: bool | None, compiled: bool | None, link: Connection) -> None:
    """Follow channels and answer questions until nobody is there to ask any more."""
    # Who asks ends it; Ctrl-C in a terminal goes to all processes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_S)
    try:
        handler = FeedHandler(config, spin=spin, compiled=compiled)
    except PregaoError as error:
        link.send(error)
        return
    with seldom_collected():
        handler.start()
        link.send(None)
        try:
            _answer_all(handler, link)
        finally:
            handler.stop()


def _answer_all(handler: FeedHandler, link: Connection) -> None:
    """Answer until whoever asks is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            question = link.recv()
            try:
                answer = _answer(handler, question)
            except Exception as error:
                answer = error
            link.send(answer)


def _answer(handler: FeedHandler, question: Callable[[FeedHandler], Any]) -> Any:
    # What waits is taken by this thread: the one that follows has nothing to do with it.
    if isinstance(question, _Take):
        return question(handler)
    return handler.ask(question)


_subscribed: dict[int, Subscription] = {}
"""In a process that follows: the subscriptions of who asks."""


class _Begin:
    """A question: begin a subscription."""

    def __init__(self, number: int, *values: Any) -> None:
        self._number = number
        self._values = values

    def __call__(self, handler: FeedHandler) -> None:
        symbols, kinds, depth, most = self._values
        made = Subscription(symbols, kinds=kinds, depth=depth, most_waiting=most)
        _subscribed[self._number] = made
        made.begin(handler)


class _Take:
    """A question: what waits for a subscription?"""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, handler: FeedHandler) -> list[Item]:
        subscription = _subscribed[self._number]
        found = subscription.take()
        if subscription.behind:
            handler.ask(subscription.refresh)
            found += subscription.take()
        return found


def _together(answers: list[Any]) -> Any:
    """One answer out of those of several processes."""
    first, *others = answers
    if not others:
        return first
    if isinstance(first, Report):
        return Report.joined(answers)
    if isinstance(first, set):
        return set().union(*answers)
    if isinstance(first, list):
        return [each for answer in answers for each in answer]
    raise UsageError("The answers of several processes to this question cannot be put together.")
