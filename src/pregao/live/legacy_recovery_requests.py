"""TCP recovery of lost messages of the legacy feed, for a feed handler (002 §6.2).

A thread connects to the recovery gateway and reads; the handler's thread interprets the data and
alone touches the channel. Feed A's gateway is preferred; B's is used when A's cannot be reached.
Where only one feed is followed, its gateway is asked, and the other one as soon as the other feed
is followed. Without a connection, a gap is waited for no longer than without recovery.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.fix.session import FixSessionSettings
from pregao.legacy.recovery import GapFiller, RecoveryClient, RecoveryEvent, RecoverySessionEnded
from pregao.live.config import RecoveryGateways
from pregao.net.addresses import Address

AGAIN_S = 2.0
"""Delay before reconnecting after a connection was refused or lost."""
_CONNECT_S = 3.0
_LOOK_S = 1.0
_HEARTBEAT_NS = 10 * SECOND
_PIECE = 1 << 16

_log = logging.getLogger(__name__)


class _Closed:
    """Marks the end of a connection."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """A new connection."""

    connection: socket.socket
    address: Address


_Arrived = _Opened | bytes | _Closed


class RecoveryLink:
    """A connection to the first reachable gateway, reconnected when it is lost."""

    def __init__(self, addresses: Sequence[Address], wake: Callable[[], None]) -> None:
        """Start connecting; ``wake`` is called when something has arrived."""
        self._addresses = addresses
        self._wake = wake
        self._arrived: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pregao-recovery", daemon=True)
        self._thread.start()

    def take(self) -> Iterator[_Arrived]:
        """Yield arrivals in order: a connection, its bytes, or its end.

        An item leaves the queue when it is yielded: if one cannot be processed, the connection
        after it is not lost.
        """
        with suppress(queue.Empty):
            while True:
                yield self._arrived.get_nowait()

    @property
    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Make the thread end, at the latest after its current attempt to connect."""
        self._stopping.set()

    def close(self) -> None:
        """Stop the thread and wait for its end."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        warned = False
        while not self._stopping.is_set():
            opened = self._connect()
            if opened is None:
                if not warned and not self._stopping.is_set():
                    shown = " or ".join(map(str, self._addresses))
                    where = shown or "A gateway of the followed feed"
                    _log.warning("%s cannot be reached: lost messages are not recovered.", where)
                warned = True
                self._stopping.wait(AGAIN_S)
                continue
            warned, began = False, time.monotonic()
            with opened.connection:
                self._put(opened)
                self._read(opened.connection)
            self._put(_Closed())
            if time.monotonic() - began < AGAIN_S:  # one that worked is reconnected immediately
                self._stopping.wait(AGAIN_S)

    def _connect(self) -> _Opened | None:
        for address in self._addresses:
            if self._stopping.is_set():
                return None
            with suppress(OSError):
                connection = socket.create_connection((address.host, address.port), _CONNECT_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(_LOOK_S)
                return _Opened(connection, address)
        return None

    def _read(self, connection: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                data = connection.recv(_PIECE)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            self._put(data)

    def _put(self, item: _Arrived) -> None:
        self._arrived.put(item)
        self._wake()


@dataclass(slots=True)
class _ChannelRecovery:
    """A channel and the recovery of its gaps."""

    channel: LegacyFeedChannel
    filler: GapFiller | None = None
    """None without a connection."""
    missing: tuple[int, int, int] | None = None
    """Without a connection: version and first number of the gap, and when it was noticed."""


class RecoveryRequester:
    """Requests missing messages of channels from a gateway; called by the channels' thread."""

    def __init__(
        self,
        channels: Iterable[LegacyFeedChannel],
        gateways: RecoveryGateways,
        wake: Callable[[], None],
    ) -> None:
        """Start connecting; another thread calls ``wake`` when `work` has something to do."""
        self._recoveries = [_ChannelRecovery(channel) for channel in channels]
        self._gateways = gateways
        self._wake = wake
        self._connection: socket.socket | None = None
        self._client: RecoveryClient | None = None
        self._feed: str | None = None
        """The feed of the connected gateway; None if it is that of any feed."""
        self._addresses = self._usable()
        self._link = RecoveryLink(self._addresses, wake)
        self._left: list[RecoveryLink] = []
        """Links to gateways that are no longer used, until their threads have ended."""

    def _usable(self) -> tuple[Address, ...]:
        """Return the gateways to connect to: those of the feed that is followed alone, or all."""
        followed = {each.channel.incremental.followed for each in self._recoveries} - {None}
        feeds = [feed for feed in followed if feed is not None]
        return self._gateways.of(feeds) if feeds else self._gateways.addresses

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The gateways that are tried, in order."""
        return self._addresses

    @property
    def connected(self) -> bool:
        """Whether a gateway is connected."""
        return self._client is not None

    @property
    def deadline_ns(self) -> int | None:
        """When `work` must be called if nothing arrives before."""
        waits = [None if self._client is None else self._client.deadline_ns]
        for each in self._recoveries:
            if each.filler is not None:
                waits.append(each.filler.deadline_ns)
            elif each.missing is not None:
                waits.append(each.missing[2] + each.channel.settings.reorder_ns)
        return min((wait for wait in waits if wait is not None), default=None)

    @property
    def channels(self) -> list[LegacyFeedChannel]:
        """The channels whose lost messages are requested."""
        return [each.channel for each in self._recoveries]

    def abandon(self) -> None:
        """Close the connection: its data could not be processed."""
        if self._connection is not None:
            with suppress(OSError):  # its reader notices the end
                self._connection.shutdown(socket.SHUT_RDWR)
        self._end()

    def work(self, now_ns: int) -> None:
        """Process arrivals and request missing messages."""
        usable = self._usable()
        if usable != self._addresses:  # the line switched to the other feed
            self._switch(usable)
        for item in self._link.take():
            if isinstance(item, _Opened):
                self._begin(item, now_ns)
            elif isinstance(item, bytes):
                if self._client is not None:
                    self._take(self._client.receive(item, now_ns), now_ns)
            else:
                self._end()
        if self._client is not None:
            due = self._client.deadline_ns
            if due is not None and due <= now_ns:
                self._take(self._client.tick(now_ns), now_ns)
        for each in self._recoveries:
            if each.filler is None or not self._has_numbers_of(each.channel):
                _without(each, now_ns)
                continue
            each.filler.watch(each.channel.incremental, now_ns)
            if each.filler.hopeless(now_ns):
                each.channel.give_up(now_ns)
        self._send()

    def close(self, now_ns: int) -> None:
        """Log out and close the connection."""
        if self._client is not None:
            self._client.session.log_out(now_ns)
            self._send()
        for link in (*self._left, self._link):
            link.close()

    def _switch(self, addresses: tuple[Address, ...]) -> None:
        """Connect to other gateways at once, whatever the link to the old ones waits for."""
        self._link.stop()
        self.abandon()
        self._left = [link for link in (*self._left, self._link) if not link.ended]
        self._addresses, self._link = addresses, RecoveryLink(addresses, self._wake)

    def _has_numbers_of(self, channel: LegacyFeedChannel) -> bool:
        """Whether the connected gateway's numbers are those of a channel (002 §5.3.7)."""
        feed = self._feed
        known = feed is not None and feed in channel.settings.feeds
        return not known or channel.incremental.numbers_agree(feed or "")

    def _begin(self, opened: _Opened, now_ns: int) -> None:
        connection, self._feed = opened.connection, self._gateways.feed_of(opened.address)
        names = FixSessionSettings(self._gateways.sender, self._gateways.target, _HEARTBEAT_NS)
        self._connection, self._client = connection, RecoveryClient(names, now_ns)
        for each in self._recoveries:
            each.filler = GapFiller(str(each.channel.settings.number), self._client)
            each.missing = None

    def _end(self) -> None:
        self._connection = self._client = None
        for each in self._recoveries:
            each.filler = None

    def _take(self, events: Sequence[RecoveryEvent], now_ns: int) -> None:
        for each in self._recoveries:
            if each.filler is not None:
                recovered = each.filler.take(events, each.channel.incremental, now_ns)
                each.channel.recovered(recovered, now_ns)
        for event in events:
            if isinstance(event, RecoverySessionEnded):
                _log.warning("The recovery session ended: %s", event.reason)
                self._send()
                self.abandon()
                return

    def _send(self) -> None:
        if self._client is None or self._connection is None:
            return
        data = self._client.take_output()
        if data:
            with suppress(OSError):  # its reader notices the end
                self._connection.sendall(data)


def _without(request: _ChannelRecovery, now_ns: int) -> None:
    """Declare a gap lost after the reorder time, as on a channel without recovery."""
    channel, lost = request.channel, request.channel.incremental.awaited
    if lost is None:
        request.missing = None
        return
    if request.missing is None or request.missing[:2] != (lost.sequence_version, lost.first):
        request.missing = (lost.sequence_version, lost.first, now_ns)
    if now_ns - request.missing[2] >= channel.settings.reorder_ns:
        request.missing = None
        channel.give_up(now_ns)
