"""Trading in a worker process that sends its events through a pipe to the publishing process.

The worker is a fork and runs only plain Python (traders and engine): no files, no threads, no
compiled code. Everything that can fail because of the machine stays in the publishing process.
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
from pregao.exchange.engine.model.events import MarketEvent, MarketItem
from pregao.exchange.simulation.day_trading import DayTrading, TradingListener, TradingTotals
from pregao.exchange.simulation.truth import TruthBook

_MIN_ORDERS = 20_000
"""Minimum number of expected orders for which a worker process pays off."""
_AT_ONCE = 512
"""Number of outcomes sent together."""
_PIPE_BYTES = 1 << 20
"""Capacity of the pipe, which limits how far trading runs ahead: what Linux allows any user."""
_ANSWER = struct.Struct("<q")


def worker_pays_off(trading: DayTrading) -> bool:
    """Whether a worker process is faster: this requires Linux and a second core.

    Windows has no fork, and system libraries of macOS do not support it.
    """
    if sys.platform != "linux":
        return False
    return trading.expected_orders >= _MIN_ORDERS and len(os.sched_getaffinity(0)) > 1


def run_in_worker(trading: DayTrading, audience: TradingListener) -> TradingTotals:
    """Run a day in a worker process, and pass its events to the audience in this process.

    ``trading`` of this process stays unchanged. If no process can be started, the day runs in
    this one.
    """
    if sys.platform == "win32":
        return trading.run(audience)
    events_in, events_out = os.pipe()
    answers_in, answers_out = os.pipe()
    _widen(events_out)
    # This process handles an interrupt and then ends the worker.
    signal_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = _fork()
    except OSError:
        process = -1
    if process == 0:
        os.close(events_in)
        os.close(answers_out)
        _trade(trading, events_out, answers_in)
    os.close(events_out)
    os.close(answers_in)
    with (
        os.fdopen(events_in, "rb", _PIPE_BYTES) as stream,
        os.fdopen(answers_out, "wb", 0) as answering,
    ):
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
            if process < 0:
                return trading.run(audience)
            return _listen(stream, answering, audience)
        finally:
            if process > 0:
                _end(process)


def _widen(pipe: int) -> None:
    """Raise the capacity of a pipe, if the user's limit of pipe memory allows it."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns about forks while other threads may hold locks; trading uses no locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _end(process: int) -> None:
    """Kill the worker if it is still running, and wait for its end."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)


def _listen(stream: BinaryIO, answering: BinaryIO, audience: TradingListener) -> TradingTotals:
    """Pass the worker's events to the audience until the day is over."""
    publish = audience.publish
    while True:
        try:
            # The data comes from a fork of this process.
            outcomes, name, values = pickle.load(stream)  # noqa: S301
        except (EOFError, pickle.UnpicklingError):
            raise PregaoError(
                "the worker process of the simulation was killed, possibly for lack of memory: "
                "simulate a shorter day or fewer messages"
            ) from None
        for now_ns, security_id, units, event in outcomes:
            publish(units if event is None else [MarketEvent(units, event)], now_ns, security_id)
        if name == "failed":
            raise values[0]
        if name == "traded":
            return TradingTotals(*values)
        if name == "messages":
            # If the worker is gone, the next load reports it.
            with suppress(BrokenPipeError):
                answering.write(_ANSWER.pack(audience.messages()))
        elif name:
            getattr(audience, name)(*values)


# In the worker process


def _trade(trading: DayTrading, pipe: int, answered: int) -> NoReturn:
    """Run the day in the worker and send its events; exit silently if the parent is gone."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with os.fdopen(pipe, "wb", _PIPE_BYTES) as stream, os.fdopen(answered, "rb", 0) as answers:
            sender = _EventSender(stream, answers)
            try:
                sender.call("traded", *trading.run(sender))
            except BrokenPipeError:
                pass
            except BaseException as error:
                sender.call("failed", _portable(error))
    finally:
        # Skip cleanup: files and buffers inherited from the parent must not be flushed twice.
        os._exit(0)


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled, with its traceback as a note."""
    stack_trace = "".join(traceback.format_exception(error))
    error.add_note(stack_trace)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled in this line
    except Exception:
        return RuntimeError(stack_trace)
    return error


class _EventSender:
    """Audience in the worker: sends events to the parent process, in batches of outcomes."""

    def __init__(self, stream: BinaryIO, answers: BinaryIO) -> None:
        self._stream = stream
        self._answers = answers
        self._waiting: list[tuple[int, int | None, Sequence[Any], bool | None]] = []
        """Queued outcomes: time, security ID, units and None. An outcome of a single unit, the
        usual case, has the unit's items and its `event` flag instead: one object less to pickle.
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
        """Send the queued outcomes, then a call of the audience's method `name`."""
        _Pickler(self._stream, pickle.HIGHEST_PROTOCOL).dump((self._waiting, name, values))
        self._stream.flush()
        self._waiting.clear()

    def begin(self, now_ns: int) -> None:
        self.call("begin", now_ns)

    def book(self, book: TruthBook) -> None:
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
    """Return a reducer to type and field values, which takes half the time of pickling a state."""
    names = [field.name for field in fields(kind)]
    values = attrgetter(*names)
    if len(names) == 1:
        return lambda item: (kind, (values(item),))
    return lambda item: (kind, values(item))


class _Pickler(pickle.Pickler):
    dispatch_table = {kind: _reduce(kind) for kind in (MarketEvent, *get_args(MarketItem))}  # noqa: RUF012
