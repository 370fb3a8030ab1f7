"""Trading in a process of its own: what it tells goes through a pipe to whoever publishes it.

The process is a fork and runs plain Python alone (traders and engine): no files, no threads, no
compiled code. All that can fail for reasons of the machine stays with the publication.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from operator import attrgetter
from typing import Any, BinaryIO, NoReturn, get_args

from pregao.errors import PregaoError
from pregao.exchange.engine.events import MarketEvent, MarketItem
from pregao.exchange.simulation.trading import Audience, Traded, Trading
from pregao.exchange.simulation.truth import ToldBook

_LEAST_ORDERS = 20_000
"""For fewer orders than these it does not pay to start a process."""
_AT_ONCE = 512
"""So many outcomes wait until they are sent together."""
_PIPE_BYTES = 1 << 20
"""How far trading may be ahead: as much as Linux lets anyone have."""
_ANSWER = struct.Struct("<q")


def pays(trading: Trading) -> bool:
    """Is a process of its own worth its start here? It takes Linux, and a second core.

    Elsewhere there is no fork (Windows), or libraries of the system do not bear it (macOS).
    """
    if sys.platform != "linux":
        return False
    return trading.expected_orders >= _LEAST_ORDERS and len(os.sched_getaffinity(0)) > 1


def trade_apart(trading: Trading, audience: Audience) -> Traded:
    """Let a day pass in another process, and tell the audience here what happens there.

    ``trading`` is left as it is. Where no process can be started, the day passes in this one.
    """
    if sys.platform == "win32":
        return trading.run(audience)
    told, tells = os.pipe()
    answered, answers = os.pipe()
    _widen(tells)
    # An interruption is for this process, which then ends the other one.
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = _fork()
    except OSError:
        process = -1
    if process == 0:
        os.close(told)
        os.close(answers)
        _trade(trading, tells, answered)
    os.close(tells)
    os.close(answered)
    with os.fdopen(told, "rb", _PIPE_BYTES) as stream, os.fdopen(answers, "wb", 0) as answering:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)
            if process < 0:
                return trading.run(audience)
            return _listen(stream, answering, audience)
        finally:
            if process > 0:
                _end(process)


def _widen(pipe: int) -> None:
    """Let more wait in a pipe than usual, where this user may still have so much."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of forks beside threads, which may hold locks: trading takes none.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _end(process: int) -> None:
    """End the other process, if it has not ended, and wait for that."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)


def _listen(stream: BinaryIO, answering: BinaryIO, audience: Audience) -> Traded:
    """Tell the audience what comes through the pipe, until the day is over."""
    publish = audience.publish
    while True:
        try:
            # It comes from this very program.
            outcomes, name, values = pickle.load(stream)  # noqa: S301
        except (EOFError, pickle.UnpicklingError):
            raise PregaoError(
                "the process in which the market trades was killed (for its memory, perhaps): "
                "simulate a shorter day, or one with fewer messages"
            ) from None
        for now_ns, security_id, units, event in outcomes:
            publish(units if event is None else [MarketEvent(units, event)], now_ns, security_id)
        if name == "failed":
            raise values[0]
        if name == "traded":
            return Traded(*values)
        if name == "messages":
            # Should nobody read it, the next thing that is read says so.
            with suppress(BrokenPipeError):
                answering.write(_ANSWER.pack(audience.messages()))
        elif name:
            getattr(audience, name)(*values)


# In the other process


def _trade(trading: Trading, tells: int, answered: int) -> NoReturn:
    """Let the day pass and tell of it; without a word if nobody listens any more."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with os.fdopen(tells, "wb", _PIPE_BYTES) as stream, os.fdopen(answered, "rb", 0) as answers:
            teller = _Teller(stream, answers)
            try:
                teller.call("traded", *trading.run(teller))
            except BrokenPipeError:
                pass
            except BaseException as error:
                teller.call("failed", _portable(error))
    finally:
        # Nothing of what this process has from the other one is closed, flushed or told twice.
        os._exit(0)


def _portable(error: BaseException) -> BaseException:
    """An error that can be sent, with the place at which it came up."""
    place = "".join(traceback.format_exception(error))
    error.add_note(place)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
    except Exception:
        return RuntimeError(place)
    return error


class _Teller:
    """Takes the place of the audience: sends what it is told, many outcomes at once."""

    def __init__(self, stream: BinaryIO, answers: BinaryIO) -> None:
        self._stream = stream
        self._answers = answers
        self._waiting: list[tuple[int, int | None, Sequence[Any], bool | None]] = []
        """Of each outcome when and on what it came, its units, and None; or, as most have only
        one unit, that unit's items and whether they are an event: one object less to send.
        """

    def publish(
        self, units: Sequence[MarketEvent], now_ns: int, security_id: int | None = None
    ) -> None:
        if len(units) == 1:
            unit = units[0]
            self._waiting.append((now_ns, security_id, unit.items, unit.event))
        else:
            self._waiting.append((now_ns, security_id, units, None))
        if len(self._waiting) == _AT_ONCE:
            self.call("")

    def call(self, name: str, *values: Any) -> None:
        """Send all that waits, and then what else the audience is told."""
        _Pickler(self._stream, pickle.HIGHEST_PROTOCOL).dump((self._waiting, name, values))
        self._stream.flush()
        self._waiting.clear()

    def begin(self, now_ns: int) -> None:
        self.call("begin", now_ns)

    def book(self, book: ToldBook) -> None:
        self.call("book", book)

    def progress(self, done: float) -> None:
        self.call("progress", done)

    def messages(self) -> int:
        self.call("messages")
        answer = self._answers.read(_ANSWER.size)
        if len(answer) < _ANSWER.size:
            raise BrokenPipeError
        (messages,) = _ANSWER.unpack(answer)
        return int(messages)

    def end(self, now_ns: int) -> None:
        self.call("end", now_ns)


def _reduce(kind: type) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    """What a record is made of again: its kind and its values, in half the time of a state."""
    names = [field.name for field in fields(kind)]
    values = attrgetter(*names)
    if len(names) == 1:
        return lambda item: (kind, (values(item),))
    return lambda item: (kind, values(item))


class _Pickler(pickle.Pickler):
    dispatch_table = {kind: _reduce(kind) for kind in (MarketEvent, *get_args(MarketItem))}  # noqa: RUF012
