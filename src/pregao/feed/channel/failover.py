"""Failover of a channel: liveness of its feeds, its sites, and its recovery streams.

The exchange sends at least a heartbeat per interval (000 §6.2). The snapshot and definition streams
are joined while they are needed, then left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pregao.feed.channel.settings import MISSED_HEARTBEATS, Join, Leave, StreamAction
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

    def another(self, now_ns: int) -> int | None:
        """Return the index of a site that is alive and not followed, or None."""
        for index, life in enumerate(self._lives):
            if index != self.followed and life.any_alive(now_ns):
                return index
        return None


class RecoveryStreams:
    """Tracks which recovery streams are joined, and whether they are idle."""

    def __init__(self, actions: list[StreamAction]) -> None:
        self._actions = actions
        """Receives requests to join and leave."""
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

    def set_joined(self, stream: Stream, feed: str, *, wanted: bool) -> bool:
        """Join or leave a stream on a feed. Returns True if it is left now."""
        if wanted == (stream in self._joined):
            return False
        if wanted:
            self._joined[stream] = feed
            self._actions.append(Join(stream, feed))
            return False
        self._actions.append(Leave(stream, self._joined.pop(stream)))
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
