"""Failover of a channel: liveness of its feeds, its sites, and its recovery streams.

The exchange sends at least a heartbeat per interval (000 §6.2), on each stream (000 §6.5.10). The
snapshot and definition streams
are joined while they are needed, then left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pregao.feed.channel.settings import (
    MISSED_HEARTBEATS,
    ChannelCounters,
    Join,
    Leave,
    StreamAction,
)
from pregao.umdf.streams import Stream


class Liveness:
    """Detects silence on a set of feeds."""

    def __init__(self, feeds: Iterable[str], heartbeat_ns: int, now_ns: int) -> None:
        self._limit_ns = MISSED_HEARTBEATS * heartbeat_ns
        self._received: dict[str, int | None] = dict.fromkeys(feeds)
        self._since_ns = now_ns
        """When something last arrived, or listening began."""
        self.down = False

    @property
    def received_anything(self) -> bool:
        """Whether anything has arrived."""
        return any(when is not None for when in self._received.values())

    @property
    def limit_ns(self) -> int:
        """Maximum duration of silence."""
        return self._limit_ns

    @property
    def since_ns(self) -> int:
        """When something last arrived, or listening began."""
        return self._since_ns

    @property
    def deadline_ns(self) -> int | None:
        """When silence will have lasted too long; None if it has."""
        return None if self.down else self._since_ns + self._limit_ns

    def on_packet(self, feed: str, now_ns: int) -> None:
        """Record an arrival on a feed."""
        self._received[feed] = now_ns
        if now_ns > self._since_ns:
            self._since_ns = now_ns

    def check(self, now_ns: int) -> bool:
        """Detect silence. Returns True only when it is first detected."""
        if self.down or now_ns - self._since_ns < self._limit_ns:
            return False
        self.down = True
        return True

    def silent_ns(self, now_ns: int) -> int:
        """Return the duration of the silence."""
        return now_ns - self._since_ns

    def received_ns(self, feed: str) -> int | None:
        """Return when something last arrived on a feed; None if nothing has."""
        return self._received[feed]

    def is_alive(self, feed: str, now_ns: int) -> bool:
        """Whether anything arrived on the feed recently."""
        last_ns = self._received.get(feed)
        return last_ns is not None and now_ns - last_ns < self._limit_ns

    def any_alive(self, now_ns: int) -> bool:
        """Whether anything arrived on any of the feeds recently."""
        return self.received_anything and now_ns - self._since_ns < self._limit_ns


class Sites:
    """The sites of a channel, each with its own feeds, and which one is followed."""

    def __init__(
        self, sites: Sequence[tuple[str, ...]], heartbeat_ns: int, now_ns: int = 0
    ) -> None:
        self._sites = sites
        self._lives = [Liveness(site, heartbeat_ns, now_ns) for site in sites]
        self._of = {feed: index for index, site in enumerate(sites) for feed in site}
        self.followed = 0

    def __contains__(self, feed: str) -> bool:
        """Whether it is a feed of any site."""
        return feed in self._of

    @property
    def feeds(self) -> tuple[str, ...]:
        """Feeds of the followed site, the main one first."""
        return self._sites[self.followed]

    @property
    def life(self) -> Liveness:
        """Liveness of the followed site."""
        return self._lives[self.followed]

    def is_followed(self, feed: str) -> bool:
        """Whether it is a feed of the followed site."""
        return self._of[feed] == self.followed

    def on_packet(self, feed: str, now_ns: int) -> None:
        """Record an arrival on a feed."""
        self._lives[self._of[feed]].on_packet(feed, now_ns)

    def is_alive(self, feed: str, now_ns: int) -> bool:
        """Whether anything arrived on the feed recently."""
        index = self._of.get(feed)
        return index is not None and self._lives[index].is_alive(feed, now_ns)

    def received_ns(self, feed: str) -> int | None:
        """Return when something last arrived on a feed; None if nothing has."""
        return self._lives[self._of[feed]].received_ns(feed)

    def another(self, now_ns: int) -> int | None:
        """Return the index of a site that is alive and not followed, or None."""
        for index, life in enumerate(self._lives):
            if index != self.followed and life.any_alive(now_ns):
                return index
        return None


class StreamSilence:
    """Detects silence of each joined stream of a feed, for the channels of all protocols.

    The caller reports arrivals, at the latest before `check`, and emits an event for each silence
    and its end. `ChannelCounters` has the silent streams and counts them.
    """

    def __init__(self, heartbeat_ns: int, counters: ChannelCounters) -> None:
        self._heartbeat_ns = heartbeat_ns
        self._limit_ns = MISSED_HEARTBEATS * heartbeat_ns
        self._counters = counters
        self._last: dict[tuple[Stream, str], int] = {}
        """When something last arrived on each joined stream, or it was joined."""
        self.deadline_ns: int | None = None
        """When `check` is due next."""

    def join(self, stream: Stream, feed: str, now_ns: int) -> None:
        """Expect packets of a stream on a feed from now on."""
        self._last[stream, feed] = now_ns
        due_ns = now_ns + self._limit_ns
        self.deadline_ns = due_ns if self.deadline_ns is None else min(self.deadline_ns, due_ns)

    def leave(self, stream: Stream, feed: str) -> None:
        """Expect nothing more of a stream on a feed."""
        del self._last[stream, feed]
        self._counters.silent.discard((stream, feed))
        if not self._last:
            self.deadline_ns = None

    def arrived(self, stream: Stream, feed: str, when_ns: int) -> bool:
        """Record an arrival. Returns True if it ends the silence of the stream."""
        key, silent = (stream, feed), self._counters.silent
        if when_ns > self._last.get(key, when_ns):
            self._last[key] = when_ns
            if key in silent:
                silent.remove(key)
                return True
        return False

    def is_silent(self, stream: Stream, feed: str) -> bool:
        """Whether a joined stream is silent."""
        return (stream, feed) in self._counters.silent

    def check(self, now_ns: int) -> list[tuple[Stream, str, int]]:
        """Return the streams that are newly silent, their feeds, and for how long."""
        if self.deadline_ns is None or now_ns < self.deadline_ns:
            return []
        silent, found = self._counters.silent, []
        # While a stream is silent, arrivals on it are looked for at the pace of heartbeats.
        waits = [self._heartbeat_ns] if silent else []
        for key, last_ns in self._last.items():
            if key in silent:
                continue
            if now_ns - last_ns < self._limit_ns:
                waits.append(last_ns + self._limit_ns - now_ns)
                continue
            silent.add(key)
            self._counters.silent_streams += 1
            waits.append(self._heartbeat_ns)
            found.append((*key, now_ns - last_ns))
        self.deadline_ns = now_ns + min(waits)
        return found


class RecoveryStreams:
    """Tracks which recovery streams are joined, and whether they are silent or idle."""

    def __init__(self, actions: list[StreamAction], silence: StreamSilence | None = None) -> None:
        self._actions = actions
        """Receives requests to join and leave."""
        self._silence = silence
        """Watches the joined streams; None if the caller does."""
        self._joined: dict[Stream, str] = {}
        self._sources: set[Stream] = set()
        self.idle = False
        """Whether the streams wait for a ChannelReset (000 §7.5)."""

    def __bool__(self) -> bool:
        """Whether any stream is joined."""
        return bool(self._joined)

    def listens(self, stream: Stream, feed: str) -> bool:
        """Whether a stream is joined on a feed."""
        return self._joined.get(stream) == feed

    @property
    def silent(self) -> bool:
        """Whether nothing arrives on one of the joined streams."""
        silence = self._silence
        return silence is not None and any(silence.is_silent(*own) for own in self._joined.items())

    def set_joined(self, stream: Stream, feed: str, now_ns: int = 0, *, wanted: bool) -> bool:
        """Join or leave a stream on a feed. Returns True if it is left now."""
        if wanted == (stream in self._joined):
            return False
        if wanted:
            self._joined[stream] = feed
            if self._silence is not None:
                self._silence.join(stream, feed, now_ns)
            self._actions.append(Join(stream, feed))
            return False
        joined = self._joined.pop(stream)
        if self._silence is not None:
            self._silence.leave(stream, joined)
        self._actions.append(Leave(stream, joined))
        self._sources.discard(stream)
        return True

    def leave(self) -> None:
        """Leave all streams: another site has its own."""
        for stream in list(self._joined):
            self.set_joined(stream, "", wanted=False)
        self.idle = False

    def add_source(self, stream: Stream) -> None:
        """Record that a stream carries data."""
        self._sources.add(stream)
        self.idle = False

    def heartbeat(self, stream: Stream) -> bool:
        """Record a heartbeat of a stream. Returns True if it is newly idle.

        A heartbeat may also occur between two loops: only one before any data means that it is
        idle.
        """
        if stream in self._sources or self.idle:
            return False
        self.idle = True
        return True
