"""Heartbeats and silence (§4.5.4.1), the same on both sides of a connection."""

from __future__ import annotations

from pregao.clock import MILLISECOND


class KeepAlive:
    """When an own sign of life is due, and when the peer's silence has lasted too long."""

    def __init__(self, own_ms: int, peer_ms: int, silent_intervals: int, now_ns: int) -> None:
        self._own_ns = own_ms * MILLISECOND
        self._silence_ns = peer_ms * MILLISECOND * silent_intervals
        self._sent_ns = now_ns
        self._heard_ns = now_ns

    def sent(self, now_ns: int) -> None:
        """Something was sent."""
        self._sent_ns = now_ns

    def heard(self, now_ns: int) -> None:
        """Something came."""
        self._heard_ns = now_ns

    def heartbeat_due(self, now_ns: int) -> bool:
        """Has nothing been sent for the own interval?"""
        return now_ns >= self._sent_ns + self._own_ns

    def lapsed(self, now_ns: int) -> bool:
        """Has nothing come for too long?"""
        return now_ns >= self._heard_ns + self._silence_ns

    @property
    def next_due_ns(self) -> int:
        """When one of the two happens next."""
        return min(self._sent_ns + self._own_ns, self._heard_ns + self._silence_ns)
