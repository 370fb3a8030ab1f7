"""Feed handler: connects sockets and channels, in one thread.

Datagrams go to the channel of their line; the handler joins and leaves the streams that a channel
requests, and passes its events to listeners. Other threads (a terminal, a metrics page, a user's
program) submit functions with `call`, which run between two batches, so that nothing needs a lock.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pregao.clock import MILLISECOND, SECOND, Clock, system_clock
from pregao.errors import NetworkError
from pregao.extras import kernels_compiled, warn_about_slowness
from pregao.feed.channel.settings import Join
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.fastpath.driver import DatagramColumns
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.live.config import Line, LiveConfig, RecoveryGateways
from pregao.live.latency import one_sent_ns, sent_ns
from pregao.live.legacy_recovery_requests import RecoveryRequester
from pregao.live.live_channel import (
    EventListener,
    JoinedLine,
    LineState,
    LiveChannel,
    new_live_channel,
    open_line,
)
from pregao.live.process_tuning import check_manner, raise_priority
from pregao.live.recorder import Recorder
from pregao.net.datagram_batch import DatagramBatch, LineCounts, LineReceiver
from pregao.net.receiver import open_receiver
from pregao.schemas.registry import Registry
from pregao.umdf.layout import PACKET_HEADER_SIZE
from pregao.umdf.streams import Stream

T = TypeVar("T")

_MAX_WAIT_NS = 200 * MILLISECOND
_RETRY_NS = 5 * SECOND
"""Delay before a refused operation is retried."""
_CALL_TIMEOUT_S = 120.0
"""Timeout of `FeedHandler.call`: kernels may have to be compiled when the first packets arrive."""
_POLL_S = 1.0
_FEW = 8
_SMALL_BATCH = 64
"""Batches smaller than this leave time to process a backlog of messages."""
_CATCH_UP_MESSAGES = 16

_log = logging.getLogger(__name__)


class FeedHandler:
    """Follows the channels of a configuration until it is stopped."""

    def __init__(
        self,
        config: LiveConfig,
        *,
        recorder: Recorder | None = None,
        spin: bool | None = None,
        compiled: bool | None = None,
        clock: Clock = system_clock,
    ) -> None:
        """Open the sockets immediately, so that network errors are raised here.

        ``spin`` overrides the configuration. ``compiled`` None uses the fastest implementation that
        this system has, True requires the compiled one, and False uses plain Python only.
        """
        if compiled is None and not kernels_compiled():
            warn_about_slowness()
        self.config = config
        registry = Registry.from_environment(config.schema_files, known_names=True)
        self.channels = {
            each.number: new_live_channel(each, compiled=compiled, registry=registry)
            for each in config.channels
        }
        self.recorder = recorder
        self.unrecorded = 0
        """Packets that could not be recorded."""
        self.failure: BaseException | None = None
        """The exception that ended the handler, if any."""
        self._clock = clock
        self._lines = {(line.channel, line.stream, line.feed): line for line in config.lines}
        self._joined: dict[Line, JoinedLine] = {}
        self._ended: dict[Line, LineCounts] = {}
        """Counts of lines that were left."""
        self._route: dict[int, JoinedLine] = {}
        self._retry_ns: dict[Line, int] = {}
        self._record_from_ns = 0
        self._listeners: list[EventListener] = []
        self._wanted = True
        self._singly: list[EventListener] = []
        """Listeners that receive the events of each packet before the next one is processed."""
        self._owners: NDArray[np.int64] = np.empty(0, np.int64)
        self._timed: NDArray[np.int64] = np.empty(0, np.int64)
        """Channel by line number: `_owners` has all lines, `_timed` those with measured latency."""
        self._calls: queue.SimpleQueue[tuple[Callable[[FeedHandler], Any], Future[Any]]]
        self._calls = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        spin = config.spin if spin is None else spin
        check_manner(spin=bool(spin), realtime=config.realtime)
        self._receiver: LineReceiver = open_receiver(compiled=compiled, spin=spin)
        self.started_ns = clock()
        self._requesters: list[RecoveryRequester] = []
        try:
            self._open_lines()
        except BaseException:
            self._receiver.close()
            raise
        sessions: dict[tuple[RecoveryGateways, int | None], list[LegacyFeedChannel]] = {}
        for number, gateways in config.recoveries.items():
            channel = self.channels[number].channel
            if isinstance(channel, LegacyFeedChannel):
                # A channel of one feed uses the gateway of that feed, which is not always A's.
                alone = None if channel.incremental.followed is None else number
                sessions.setdefault((gateways, alone), []).append(channel)
        for (gateways, _), legacy in sessions.items():
            self._requesters.append(RecoveryRequester(legacy, gateways, self._receiver.wake))

    # Lines

    def _open_lines(self) -> None:
        for followed in self.channels.values():
            followed.channel.start(self.started_ns)
            self._act(followed, first=True)
        for line in self.config.lines:
            if self.recorder is not None:
                self._join(line, wanted=False)
            elif line not in self._joined:
                # A stream that cannot be joined must be noticed now, not in an hour.
                open_line(line, self.config.buffer_bytes).close()

    def _join(self, line: Line, *, wanted: bool) -> None:
        joined = self._joined.get(line)
        if joined is None:
            number = self._receiver.add(open_line(line, self.config.buffer_bytes))
            joined = JoinedLine(number, self.channels[line.channel], line, wanted)
            self._joined[line] = self._route[number] = joined
            self._routed(joined.followed)
            if self.recorder is not None:
                self.recorder.line(number, line.address)
        if wanted and not joined.wanted:
            joined.wanted = True
            self._routed(joined.followed)

    def _routed(self, followed: LiveChannel) -> None:
        """Update the channel's lines, and the channel of each line number."""
        own = [each for each in self._route.values() if each.followed is followed]
        if isinstance(followed.channel, FastChannel):
            wanted = {
                each.number: (each.line.stream, each.line.feed) for each in own if each.wanted
            }
            followed.channel.set_lines(wanted)
        self._owners = np.full(max(self._route, default=-1) + 1, -1, np.int64)
        self._timed = self._owners.copy()
        for number, each in self._route.items():
            self._owners[number] = each.line.channel
            # Packets of the legacy feed have no header with a sending time.
            has_sending_time = each.followed.channel.settings.legacy is None
            if each.wanted and has_sending_time and each.line.stream is Stream.INCREMENTAL:
                self._timed[number] = each.line.channel

    def _leave(self, line: Line) -> None:
        self._retry_ns.pop(line, None)
        joined = self._joined.get(line)
        if joined is None:
            return
        if self.recorder is not None:
            joined.wanted = False
            self._routed(joined.followed)
            return
        self._ended[line] = self._counts(line)
        del self._joined[line], self._route[joined.number]
        self._receiver.remove(joined.number)
        self._routed(joined.followed)

    def _act(self, followed: LiveChannel, *, first: bool = False) -> None:
        """Join and leave the streams that a channel requests."""
        for action in followed.channel.take_actions():
            key = (followed.channel.settings.number, action.stream, action.feed)
            line = self._lines.get(key)
            if line is None:
                continue  # not configured: the channel continues without it
            if not isinstance(action, Join):
                self._leave(line)
                continue
            try:
                self._join(line, wanted=True)
            except NetworkError as error:
                if first:
                    raise
                self._refused(line, error)

    def _refused(self, line: Line, error: NetworkError) -> None:
        _log.warning("%s", error)
        self._retry_ns[line] = self._clock() + _RETRY_NS

    def _retry_joins(self, now_ns: int) -> None:
        for line in [line for line, when in self._retry_ns.items() if when <= now_ns]:
            del self._retry_ns[line]
            try:
                self._join(line, wanted=True)
            except NetworkError as error:
                self._refused(line, error)

    def _counts(self, line: Line) -> LineCounts:
        before = self._ended.get(line, LineCounts())
        joined = self._joined.get(line)
        now = LineCounts() if joined is None else self._receiver.counts(joined.number)
        return LineCounts(
            before.packets + now.packets,
            before.bytes + now.bytes,
            before.truncated + now.truncated,
            before.dropped + now.dropped,
        )

    def line_states(self) -> list[LineState]:
        """Return all lines and their counts; call it through `call` or from a listener."""
        return [
            LineState(line, line in self._joined and self._joined[line].wanted, self._counts(line))
            for line in self.config.lines
        ]

    def now(self) -> int:
        """Return the time of the handler's clock."""
        return self._clock()

    # Running

    def add_listener(self, listener: EventListener, *, singly: bool = True) -> None:
        """Add a listener, before the handler runs or through `call`.

        A listener that does not read books when it receives events can pass ``singly=False``: it
        then receives the events of many packets per call, which takes far less time.
        """
        self._want(wanted=True)
        self._listeners = [*self._listeners, listener]
        if singly:
            self._singly = [*self._singly, listener]

    def remove_listener(self, listener: EventListener) -> None:
        """Remove a listener."""
        self._listeners = [each for each in self._listeners if each is not listener]
        self._singly = [each for each in self._singly if each is not listener]

    def call(self, function: Callable[[FeedHandler], T], timeout_s: float = _CALL_TIMEOUT_S) -> T:
        """Run a function in the handler's thread, between two batches, and return its result."""
        if self._thread is threading.current_thread():
            return function(self)
        if self._thread is None or not self._thread.is_alive():
            if self.failure is not None:
                raise self.failure
            return function(self)
        answer: Future[T] = Future()
        self._calls.put((function, answer))
        self._receiver.wake()
        stop = time.monotonic() + timeout_s
        while True:
            try:
                return answer.result(min(_POLL_S, max(0.0, stop - time.monotonic())))
            except TimeoutError:
                if answer.done() or time.monotonic() >= stop:
                    raise
                if not self._thread.is_alive():
                    self._run_calls()  # the thread ended before it saw the call

    def start(self) -> None:
        """Run in a separate thread."""
        self._thread = threading.Thread(target=self.run, name="pregao-feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop soon, and wait for the thread."""
        self._stopping.set()
        self._receiver.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def run(self) -> None:
        """Follow the channels until `stop` is called."""
        if self.config.realtime and (refused := raise_priority()):
            _log.warning(refused)
        try:
            while not self._stopping.is_set():
                self._step()
        except BaseException as error:
            self.failure = error
            if self._thread is None:
                raise
            _log.error("The feed handler failed: %s", error)
        finally:
            self._run_calls()
            self._close()

    def _step(self) -> None:
        # The clock is read before the sockets, or is the time of the last packet: a packet that
        # waits in the kernel, because this thread was delayed, is not missing.
        now = self._clock()
        batch = self._receiver.receive(self._wait_ns(now) / SECOND)
        if len(batch):
            self._record(batch)
            self._take(batch)
            self._note_delays(batch)
            last = int(batch.time_ns[-1])
            now = last if batch.more else max(now, last)
        for requester in self._requesters:
            self._request_recovery(requester, now)
        for followed in self.channels.values():
            if self._requesters:
                self._publish(followed)
            channel = followed.channel
            if len(batch) < _SMALL_BATCH and isinstance(channel, FastChannel):
                self._guarded(followed, partial(channel.catch_up, _CATCH_UP_MESSAGES), now)
            deadline = channel.deadline()
            if deadline is not None and deadline <= now:
                self._guarded(followed, partial(channel.tick, now), now)
                self._publish(followed)
            self._act(followed)
        if self._retry_ns:
            self._retry_joins(now)
        if self.recorder is not None:
            self._written(partial(self.recorder.tick, now), 0)
        self._run_calls()

    def _request_recovery(self, requester: RecoveryRequester, now_ns: int) -> None:
        """Request lost messages of the legacy feed; a failure must not end the handler."""
        try:
            requester.work(now_ns)
        except Exception as error:
            requester.abandon()
            for channel in requester.channels:
                self._failed(self.channels[channel.settings.number], error, now_ns)

    def _wait_ns(self, now_ns: int) -> int:
        """Return how long to wait for packets, in nanoseconds."""
        deadlines = [followed.channel.deadline() for followed in self.channels.values()]
        deadlines += [requester.deadline_ns for requester in self._requesters]
        waits = [deadline - now_ns for deadline in deadlines if deadline is not None]
        return max(0, min([*waits, _MAX_WAIT_NS]))

    def _take(self, batch: DatagramBatch) -> None:
        datagrams = DatagramColumns(*batch.columns)
        if len(self.channels) == 1:
            for followed in self.channels.values():
                self._take_of(followed, datagrams)
            return
        owners = self._owners[batch.line]
        for number, followed in self.channels.items():
            own = np.flatnonzero(owners == number)
            if len(own):
                self._take_of(followed, datagrams.chosen(own))

    def _take_of(self, followed: LiveChannel, datagrams: DatagramColumns) -> None:
        """Process the datagrams of one channel."""
        channel = followed.channel
        index, end = 0, len(datagrams.offset)
        if isinstance(channel, FastChannel):
            while index < end:
                try:
                    index = channel.receive_many(datagrams, index, end, singly=bool(self._singly))
                except Exception as error:
                    index = channel.current
                    when = int(datagrams.time_ns[index])
                    self._failed(followed, error, when, datagrams.payload(index))
                    index += 1
                self._publish(followed)
            return
        lines, times = datagrams.line.tolist(), datagrams.time_ns.tolist()
        for number, when in zip(lines, times, strict=True):
            joined = self._route[number]
            if joined.wanted:
                line, payload = joined.line, datagrams.payload(index)
                try:
                    channel.receive(line.stream, line.feed, payload, when, when)
                except Exception as error:
                    self._failed(followed, error, when, payload)
                self._publish(followed)
            index += 1

    def _failed(
        self, followed: LiveChannel, error: Exception, now_ns: int, payload: bytes | None = None
    ) -> None:
        """Count and log that a packet could not be processed, and rebuild its channel.

        Network input must not end the handler. The packet may have been applied in part, so nothing
        of its channel is trusted until the recovery streams have confirmed it again.
        """
        followed.failures.add(error, payload, now_ns)
        try:
            followed.channel.restart(now_ns)
        except Exception as second:
            followed.failures.add(second, payload, now_ns)

    def _guarded(self, followed: LiveChannel, work: Callable[[], Any], now_ns: int) -> Any:
        """Run work of a channel; return None if it fails."""
        try:
            return work()
        except Exception as error:
            self._failed(followed, error, now_ns)
            return None

    def _note_delays(self, batch: DatagramBatch) -> None:
        """Record the latency of incremental packets."""
        if len(batch) <= _FEW:  # a loop is faster than columns for a few
            for row, line in enumerate(batch.line.tolist()):
                if self._timed[line] >= 0 and batch.length[row] >= PACKET_HEADER_SIZE:
                    received_ns = int(batch.time_ns[row])
                    delays = self._route[line].followed.delays
                    delays.add(received_ns - one_sent_ns(batch, row), received_ns)
            return
        owners = np.where(batch.length >= PACKET_HEADER_SIZE, self._timed[batch.line], -1)
        for number, followed in self.channels.items():
            own = np.flatnonzero(owners == number)
            if len(own):
                when = batch.time_ns[own]
                followed.delays.add_many(when - sent_ns(batch, own), int(when[-1]))

    def _want(self, *, wanted: bool) -> None:
        """Enable or disable the channels' events: without listeners none are created."""
        if wanted != self._wanted:
            self._wanted = wanted
            for followed in self.channels.values():
                followed.channel.enable_events(enabled=wanted)

    def _publish(self, followed: LiveChannel) -> None:
        if not self._listeners:
            self._want(wanted=False)
            return
        try:
            events = followed.channel.take_events()
        except Exception as error:
            self._failed(followed, error, self._clock())
            return
        if events:
            for listener in self._listeners:
                listener.on_events(followed.channel, events)

    def _record(self, batch: DatagramBatch) -> None:
        if self.recorder is None:
            return
        if self._clock() < self._record_from_ns:
            self.unrecorded += len(batch)
        else:
            self._written(partial(self.recorder.write, batch), len(batch))

    def _written(self, work: Callable[[], None], packets: int) -> None:
        """Run work of the recorder; on failure the feed continues and lost packets are counted."""
        try:
            work()
        except Exception as error:  # whatever it is, the channels get their packets
            self.unrecorded += packets
            self._record_from_ns = self._clock() + _RETRY_NS
            _log.warning("Recording failed and is paused for a few seconds: %s", error)

    def _run_calls(self) -> None:
        while True:
            try:
                function, answer = self._calls.get_nowait()
            except queue.Empty:
                return
            try:
                answer.set_result(function(self))
            except BaseException as error:
                answer.set_exception(error)

    def _close(self) -> None:
        for line in self._joined:
            self._ended[line] = self._counts(line)
        self._joined.clear()
        for requester in self._requesters:
            requester.close(self._clock())
        self._receiver.close()
        if self.recorder is not None:
            self._written(self.recorder.close, 0)
