"""Market protections: counters of an account's trades, and the limits that protect it.

A configuration watches some instruments for one account of a firm. Its interval starts with a
trade; a trade after its end starts a new one, with all counters at zero. Orders entered before the
configuration are neither counted nor canceled.
"""

from __future__ import annotations

from typing import NamedTuple

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.model.enums import ProtectionScope
from pregao.exchange.engine.model.instruments import Instrument, MultiLegModel
from pregao.exchange.engine.model.operations_commands import ProtectionReference, SetProtection
from pregao.exchange.engine.model.reject_codes import PROTECTION_IN_EFFECT, Reject
from pregao.units import PRICE_SCALE

INSTRUMENT = ProtectionScope.INSTRUMENT
OPTIONS = ProtectionScope.OPTIONS


class ProtectionWatch(NamedTuple):
    """Whether a configuration counts or cancels an instrument, and the name of the reference."""

    counts: bool
    cancels: bool
    product: str


_NOT_WATCHED = ProtectionWatch(False, False, "")


class Protection:
    """A configuration with its counters; ``active`` is the protected mode."""

    __slots__ = (
        "_watches",
        "active",
        "began_ns",
        "delta",
        "executions",
        "filled",
        "leftovers",
        "net_quantity",
        "quantity",
        "reached",
        "settings",
        "since",
    )

    def __init__(self, settings: SetProtection, since: int) -> None:
        self.settings = settings
        self.since = since
        """Last order entered before the configuration."""
        self._watches: dict[int, ProtectionWatch] = {}
        self.reset()

    def reset(self) -> None:
        """Reset all counters and leave the protected mode."""
        self.active = False
        self.reached = False
        """Whether a limit is reached: the protected mode starts after the event."""
        self.leftovers: list[EngineOrder] = []
        """Orders partly filled in protected mode: what is left of them is canceled."""
        self._begin(None)

    def _begin(self, began_ns: int | None) -> None:
        self.began_ns = began_ns
        self.filled: set[int] = set()
        self.executions = 0
        self.quantity = 0
        self.net_quantity = 0
        self.delta = 0

    def watch(self, instrument: Instrument) -> ProtectionWatch:
        """Return how this configuration watches an instrument."""
        found = self._watches.get(instrument.security_id)
        if found is None:
            found = self._watches[instrument.security_id] = self._find(instrument)
        return found

    def _find(self, instrument: Instrument) -> ProtectionWatch:
        for reference in self.settings.references:
            part = _part(reference, instrument)
            if part is not None:
                return ProtectionWatch(
                    bool(part & reference.counts),
                    bool(part & reference.cancels),
                    _product(reference, instrument),
                )
        return _NOT_WATCHED

    def count(self, order: EngineOrder, quantity: int, delta: int, now_ns: int) -> None:
        """Count a fill of one of the account's orders."""
        settings = self.settings
        if self.began_ns is None or now_ns - self.began_ns > settings.interval_ns:
            self._begin(now_ns)
        signed = quantity if order.side == BUY else -quantity
        self.filled.add(order.order_id)
        self.executions += 1
        self.quantity += quantity
        self.net_quantity += signed
        self.delta += signed * delta
        for counter, limit in (
            (len(self.filled), settings.new_order_fills),
            (self.executions, settings.executions),
            (self.quantity, settings.traded_quantity),
            (abs(self.net_quantity), settings.net_quantity),
            (abs(self.delta), settings.delta),
        ):
            if limit is not None and counter >= limit:
                self.reached = True


def _part(reference: ProtectionReference, instrument: Instrument) -> ProtectionScope | None:
    """Return whether an instrument is the reference itself or an option on it, or None."""
    option = instrument.put_or_call is not None
    if reference.asset:
        if instrument.asset != reference.asset:
            return None
        return OPTIONS if option else INSTRUMENT
    if instrument.security_id == reference.security_id:
        return INSTRUMENT
    on = any(x.security_id == reference.security_id for x in instrument.underlyings)
    return OPTIONS if option and on else None


def _product(reference: ProtectionReference, instrument: Instrument) -> str:
    """Return the name of a reference, from an instrument that it watches."""
    symbols = {x.security_id: x.symbol for x in instrument.underlyings}
    symbols[instrument.security_id] = instrument.symbol
    return reference.asset or symbols[reference.security_id]


def count_fill(
    market: Market, listing: Listing, order: EngineOrder, quantity: int, now_ns: int
) -> None:
    """Count a fill in every configuration that watches it; user-defined spreads never count."""
    found = market.protections.get((order.firm, order.account))
    if found is None or listing.instrument.multi_leg_model == MultiLegModel.USER_DEFINED:
        return
    for protection in found:
        watch = protection.watch(listing.instrument)
        if order.order_id <= protection.since:
            continue
        if protection.active:
            if watch.cancels and order.leaves:
                protection.leftovers.append(order)
                market.reached.append(protection)
                market.follows = True
        elif watch.counts:
            delta = market.deltas.get(listing.security_id, PRICE_SCALE)
            protection.count(order, quantity, delta, now_ns)
            if protection.reached:
                market.reached.append(protection)
                market.follows = True


def check_protection(market: Market, listing: Listing, firm: int, account: int) -> Reject | None:
    """Return the reject if an account is in protected mode for an instrument, or None."""
    for protection in market.protections.get((firm, account), ()):
        watch = protection.watch(listing.instrument)
        if protection.active and (watch.counts or watch.cancels):
            return Reject(
                PROTECTION_IN_EFFECT.code,
                f"{PROTECTION_IN_EFFECT.text} for configuration ID "
                f"{protection.settings.protection_id} with product {watch.product} of participant "
                f"{firm}/{account}",
            )
    return None


def reset_protections(market: Market, listing: Listing, firm: int, account: int) -> None:
    """Leave the protected mode at the owner's request, in all configurations for an instrument."""
    for protection in market.protections.get((firm, account), ()):
        watch = protection.watch(listing.instrument)
        if watch.counts or watch.cancels:
            protection.reset()
