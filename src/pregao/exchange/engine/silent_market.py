"""A market without reports to the owners of orders.

A simulation uses only the public feed; reports are a tenth of its engine's work.
"""

from __future__ import annotations

from pregao.exchange.engine.market import Market


class SilentMarket(Market):
    """A market without the reports of every order; rejects are still reported."""

    __slots__ = ()

    def report_accepted(self, *_told: object, **_more: object) -> None:
        """Report nothing."""

    def cancelled(self, *_told: object, **_more: object) -> None:
        """Report nothing."""

    def filled(self, *_told: object, **_more: object) -> None:
        """Report nothing."""

    def modified(self, *_told: object, **_more: object) -> None:
        """Report nothing."""

    def restated(self, *_told: object, **_more: object) -> None:
        """Report nothing."""
