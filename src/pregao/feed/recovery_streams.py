"""The snapshot and definition streams of a channel: joined while they are needed, then left."""

from __future__ import annotations

from pregao.feed.channel_settings import Action, Join, Leave
from pregao.umdf.streams import Stream


class RecoveryStreams:
    """Which recovery streams are listened to, and whether they have anything to tell."""

    def __init__(self, actions: list[Action]) -> None:
        self._actions = actions
        """Where joins and leaves are asked for."""
        self._joined: dict[Stream, str] = {}
        self._telling: set[Stream] = set()
        self.idle = False
        """Do they say that they wait for a ChannelReset (000 §7.5)?"""

    def __bool__(self) -> bool:
        """Is any of them listened to?"""
        return bool(self._joined)

    def listens(self, stream: Stream, feed: str) -> bool:
        """Is a stream listened to on a feed?"""
        return self._joined.get(stream) == feed

    def want(self, stream: Stream, feed: str, *, wanted: bool) -> bool:
        """Listen to a stream on a feed, or not; True if it is left now."""
        if wanted == (stream in self._joined):
            return False
        if wanted:
            self._joined[stream] = feed
            self._actions.append(Join(stream, feed))
            return False
        self._actions.append(Leave(stream, self._joined.pop(stream)))
        self._telling.discard(stream)
        return True

    def leave(self) -> None:
        """Listen to none of them: another site has its own."""
        for stream in list(self._joined):
            self.want(stream, "", wanted=False)
        self.idle = False

    def tells(self, stream: Stream) -> None:
        """A stream has something to tell."""
        self._telling.add(stream)
        self.idle = False

    def heartbeat(self, stream: Stream) -> bool:
        """A stream is idle; True if that was not known.

        Between two loops there may be a heartbeat too: only one that comes first says so.
        """
        if stream in self._telling or self.idle:
            return False
        self.idle = True
        return True
