"""Is a channel alive? The exchange sends at least a heartbeat in every interval (000 §6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    def limit_ns(self) -> int:
        """How long silence may last."""
        return self._limit_ns

    @property
    def since_ns(self) -> int:
        """When something was last heard, or listening began."""
        return self._since_ns

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


class Sites:
    """The sites of a channel, each with feeds of its own, and which of them is followed."""

    def __init__(
        self, sites: Sequence[tuple[str, ...]], heartbeat_ns: int, now_ns: int = 0
    ) -> None:
        self._sites = sites
        self._lives = [Liveness(site, heartbeat_ns, now_ns) for site in sites]
        self._of = {feed: at for at, site in enumerate(sites) for feed in site}
        self.followed = 0

    def __contains__(self, feed: str) -> bool:
        """Is it a feed of any site?"""
        return feed in self._of

    @property
    def feeds(self) -> tuple[str, ...]:
        """The feeds of the site that is followed, the main one first."""
        return self._sites[self.followed]

    @property
    def life(self) -> Liveness:
        """Is the site alive that is followed?"""
        return self._lives[self.followed]

    def is_followed(self, feed: str) -> bool:
        """Is it a feed of the site that is followed?"""
        return self._of[feed] == self.followed

    def hear(self, feed: str, now_ns: int) -> None:
        """Something came on a feed."""
        self._lives[self._of[feed]].hear(feed, now_ns)

    def is_alive(self, feed: str, now_ns: int) -> bool:
        """Has a feed brought something lately?"""
        at = self._of.get(feed)
        return at is not None and self._lives[at].is_alive(feed, now_ns)

    def another(self, now_ns: int) -> int | None:
        """A site that is alive and not followed; None if there is none."""
        for at, life in enumerate(self._lives):
            if at != self.followed and life.any_alive(now_ns):
                return at
        return None
