"""A market that nobody is waiting for an answer from: what it tells owners of orders is not made.

A simulation looks at the public feed alone; reports are a tenth of what its engine does.
"""

from __future__ import annotations

from pregao.exchange.engine.market import Market


class SilentMarket(Market):
    """A market without the reports that every order brings; refusals are still told."""

    __slots__ = ()

    def accepted(self, *_told: object, **_more: object) -> None:
        """Tell nobody."""

    def cancelled(self, *_told: object, **_more: object) -> None:
        """Tell nobody."""

    def filled(self, *_told: object, **_more: object) -> None:
        """Tell nobody."""

    def modified(self, *_told: object, **_more: object) -> None:
        """Tell nobody."""

    def restated(self, *_told: object, **_more: object) -> None:
        """Tell nobody."""
