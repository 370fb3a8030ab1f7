"""Snapshot and definition streams of a channel: joined while they are needed, then left."""

from __future__ import annotations

from pregao.feed.channel_settings import Join, Leave, StreamAction
from pregao.umdf.streams import Stream


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
