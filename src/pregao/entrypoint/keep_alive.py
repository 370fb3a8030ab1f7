"""Keep-alive (§4.5.4.1), the same on both sides of a connection."""

from __future__ import annotations

from pregao.clock import MILLISECOND


class KeepAlive:
    """Timers for sending heartbeats and for detecting a silent peer."""

    def __init__(self, own_ms: int, peer_ms: int, silent_intervals: int, now_ns: int) -> None:
        self._own_ns = own_ms * MILLISECOND
        self._silence_ns = peer_ms * MILLISECOND * silent_intervals
        self._sent_ns = now_ns
        self._heard_ns = now_ns

    def sent(self, now_ns: int) -> None:
        """Record that something was sent."""
        self._sent_ns = now_ns

    def on_received(self, now_ns: int) -> None:
        """Record that something was received."""
        self._heard_ns = now_ns

    def heartbeat_due(self, now_ns: int) -> bool:
        """Whether nothing was sent for the own interval."""
        return now_ns >= self._sent_ns + self._own_ns

    def lapsed(self, now_ns: int) -> bool:
        """Whether nothing was received for too long."""
        return now_ns >= self._heard_ns + self._silence_ns

    @property
    def next_due_ns(self) -> int:
        """Time at which the next of the two timers expires."""
        return min(self._sent_ns + self._own_ns, self._heard_ns + self._silence_ns)
