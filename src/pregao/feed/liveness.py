"""Is a channel alive? The exchange sends at least a heartbeat in every interval (000 §6.2)."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.feed.channel_settings import MISSED_HEARTBEATS


class Liveness:
    """Notices when nothing comes any more on any of some feeds."""

    def __init__(self, feeds: Iterable[str], heartbeat_ns: int, now_ns: int) -> None:
        self._limit_ns = MISSED_HEARTBEATS * heartbeat_ns
        self._heard: dict[str, int | None] = dict.fromkeys(feeds)
        self._since_ns = now_ns
        """When something was last heard, or listening began."""
        self.down = False

    @property
    def heard(self) -> bool:
        """Has anything come at all?"""
        return any(when is not None for when in self._heard.values())

    @property
    def deadline_ns(self) -> int | None:
        """When silence will have lasted too long; None if it has."""
        return None if self.down else self._since_ns + self._limit_ns

    def hear(self, feed: str, now_ns: int) -> None:
        """Something came on a feed."""
        self._heard[feed] = now_ns
        if now_ns > self._since_ns:
            self._since_ns = now_ns

    def check(self, now_ns: int) -> bool:
        """Is it found down now, and was it not before?"""
        if self.down or now_ns - self._since_ns < self._limit_ns:
            return False
        self.down = True
        return True

    def silent_ns(self, now_ns: int) -> int:
        """How long nothing has come."""
        return now_ns - self._since_ns

    def is_alive(self, feed: str, now_ns: int) -> bool:
        """Has a feed brought something lately?"""
        heard = self._heard.get(feed)
        return heard is not None and now_ns - heard < self._limit_ns

    def any_alive(self, now_ns: int) -> bool:
        """Has any of the feeds brought something lately?"""
        return self.heard and now_ns - self._since_ns < self._limit_ns
