"""Profiles: the behavior of a simulated market, read from TOML and validated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.model.instruments import SecurityType
from pregao.safe_io.documents import parse_toml, read_tables

OPEN_ACTIONS = (
    "quote",
    "cancel",
    "reduce",
    "requote",
    "enlarge",
    "iceberg",
    "at_the_close",
    "good_till_cancel",
    "aggress",
    "cross",
    "mass_cancel",
    "stop",
    "provide",
    "retail",
    "pegged",
    "investor",
    "user_spread",
)
"""Actions of traders in continuous trading."""
AUCTION_ACTIONS = ("quote", "at_the_auction", "at_the_close", "cancel", "reduce", "requote")
"""Actions of traders in an auction."""
TAKE_KINDS = ("limit", "immediate_or_cancel", "fill_or_kill", "market", "market_to_limit")
"""Kinds of orders that trade immediately."""
OPERATIONS = (
    "bust",
    "amend",
    "enter_trade",
    "forward",
    "cancel_order",
    "delete_side",
    "pause",
    "reset_book",
    "list_instrument",
    "adjust",
    "define_spread",
    "bands",
)
"""Market operations during the day."""

FLOW_NUMBERS = (
    "lifetime_median_ms",
    "lifetime_p10_ms",
    "amended",
    "improving",
    "cancels_per_trade",
    "one_lot",
    "interval_cv",
    "close",
    "fano",
    "busiest",
)
"""Measures of an order flow for comparison; `pregao.lake.analytics` computes them."""

FLOW_VERSION = 2
"""Version of the model that the numbers of a profile are for."""
_MAX_RATE = 10_000_000.0
_MAX_COUNT = 1_000_000
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Activity:
    """Distribution of the orders over instruments and over the day."""

    exponent: float
    day: tuple[float, ...]
    auction: float


@dataclass(frozen=True, slots=True)
class Bursts:
    """Short spans in which the rate of orders is a multiple of the mean."""

    share: float
    length_ms: float
    factor: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Excitation:
    """Requests that trigger others, as a Hawkes process."""

    branching: float = 0.0
    """Mean number of decisions that a decision and its follow-up requests trigger."""
    together: float = 1.0
    """Mean number of reactions to the same cause that come together."""
    near: float = 0.5
    """Share of the reactions that are immediate."""
    near_us: float = 100.0
    far_ms: float = 10.0
    """Mean delay of immediate reactions (``fast_us``), and of the others (``slow_ms``)."""
    same: float = 0.8
    """Share of the reactions on the same instrument."""


@dataclass(frozen=True, slots=True)
class Makers:
    """Market makers, whose quotes live for milliseconds."""

    share: float = 0.0
    """Share of the plain quotes that are market makers'."""
    life_ms: float = 20.0
    """Median time until a quote is canceled or replaced."""
    life_spread: float = 1.5
    """Standard deviation of the logarithm of that time."""
    replace: float = 0.3
    """Share of quotes that are replaced rather than canceled."""
    improve: float = 0.4
    """Share of quotes one tick better than the touch, if the spread allows it."""
    deep: float = 0.0
    """Share of quotes far from the touch, which live long."""
    deep_ms: float = 5000.0
    """Median lifetime of those."""


@dataclass(frozen=True, slots=True)
class BookSize:
    """Number of resting orders per side."""

    orders: int
    least: int
    large: int
    large_orders: int


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of orders, in ticks."""

    half_spread: float
    near: float
    far: float
    far_share: float
    auction_reach: float


@dataclass(frozen=True, slots=True)
class FairValue:
    """Latent fair value of each instrument."""

    volatility: float
    """Standard deviation of its change per decision, in ticks."""
    clustering: float
    """Factor between two levels of the volatility; 1: it is constant."""
    impact: float
    """Change by an aggression of mean size, in ticks."""
    permanent: float
    """Share of that change that remains."""
    relaxation: float
    """Mean number of decisions until the rest is gone."""


@dataclass(frozen=True, slots=True)
class Takers:
    """Parent orders, whose children trade immediately."""

    parents: int
    """Parent orders at work at a time in an instrument."""
    exponent: float
    """Exponent of the power law of their lengths."""
    longest: int
    """Maximum number of children."""
    level: float
    """Share of the children that take all orders at the best price."""
    sweep: float
    """Share of the children that take several prices."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """Sizes of orders in lots, each with its weight."""

    lots: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Shocks:
    """News that moves a price."""

    count: int
    percent: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Members:
    """Member firms, each with order entry sessions."""

    firms: int
    sessions: int
    shown: float = 1.0
    """Share of the orders with a published firm."""
    top_five: float = 0.6
    """Share of the orders of the five most active firms."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Behavior of a simulated market."""

    name: str
    rate: float
    messages_per_order: float
    security_types: tuple[SecurityType, ...]
    weights: Mapping[str, float]
    activity: Activity
    bursts: Bursts
    book: BookSize
    prices: Prices
    fair_value: FairValue
    takers: Takers
    quantities: Quantities
    open: Mapping[str, float]
    auction: Mapping[str, float]
    take: Mapping[str, float]
    operations: Mapping[str, int]
    bands_share: float
    """Share of the messages that publish bands again, in addition to ``operations``."""
    shocks: Shocks
    members: Members
    excitation: Excitation
    makers: Makers
    auction_ends: AuctionRules | None
    """Rules by which auctions end in a day of full length; None: at their scheduled ends."""
    calibrated: Mapping[str, float]
    """Measures of the real day's flow that the profile was fitted to, if any."""


def bundled_profiles() -> tuple[str, ...]:
    """Return the names of the bundled profiles."""
    return tuple(_bundle())


def bundled_data(name: str) -> dict[str, Any]:
    """Return the data of a bundled profile."""
    return _bundle()[name]


def load_profile(name_or_path: str) -> Profile:
    """Load a bundled profile by its name, or a profile from a TOML file."""
    bundle = _bundle()
    if name_or_path in bundle:
        return parse_profile(name_or_path, bundle[name_or_path], f"profile {name_or_path}")
    path = Path(name_or_path)
    if path.suffix != ".toml" and not path.is_file():
        raise UsageError(
            f"unknown profile {name_or_path!r}; choose one of {', '.join(bundle)}, "
            "or give the path of a TOML file"
        )
    return parse_profile(path.stem, read_tables(path), str(path))


def parse_profile(name: str, data: Mapping[str, Any], where: str) -> Profile:
    """Validate a profile's data; ``where`` prefixes every error."""
    top = _Section(where, "", data)
    advice = "start from a bundled profile of this version"
    if "flow_version" not in data:
        top.wrong("flow_version", f"is missing, must be {FLOW_VERSION}: {advice}")
    version = top.count("flow_version")
    if version != FLOW_VERSION:
        top.wrong("flow_version", f"must be {FLOW_VERSION}, was {version}: {advice}")
    profile = Profile(
        name=name,
        rate=top.number("rate", above=0.0, maximum=_MAX_RATE),
        messages_per_order=top.number("messages_per_order", minimum=1.0, maximum=100.0),
        security_types=top.security_types("security_types"),
        weights=top.weight_by_symbol("weights"),
        activity=_activity(top.section("activity")),
        bursts=_bursts(top.section("bursts")),
        book=_book(top.section("book")),
        prices=_prices(top.section("prices")),
        fair_value=_fair_value(top.section("fair_value")),
        takers=_takers(top.section("takers")),
        quantities=_quantities(top.section("quantities")),
        open=top.section("open").mix(OPEN_ACTIONS),
        auction=top.section("auction").mix(AUCTION_ACTIONS),
        take=top.section("aggressive").mix(TAKE_KINDS),
        bands_share=(operations := top.section("operations")).number(
            "bands_share", maximum=0.5, default=0.0
        ),
        operations=_operations(operations),
        shocks=_shocks(top.section("shocks")),
        members=_members(top.section("members")),
        excitation=_excitation(top.section("excitation", optional=True)),
        makers=_makers(top.section("makers", optional=True)),
        auction_ends=top.auction_rules("auction_ends"),
        calibrated=top.section("calibrated", optional=True).known_numbers(FLOW_NUMBERS),
    )
    top.done()
    return profile


def _activity(section: _Section) -> Activity:
    activity = Activity(
        section.number("exponent", maximum=10.0),
        section.numbers("day"),
        section.number("auction", maximum=1000.0),
    )
    if not any(activity.day):
        section.wrong("day", "must have at least one number greater than 0")
    section.done()
    return activity


def _bursts(section: _Section) -> Bursts:
    factor = section.span("factor", minimum=1.0)
    share = section.number("share", maximum=0.5)
    if share * (factor[0] + factor[1]) / 2 > 0.9:
        section.wrong("share", "leaves no orders for the time outside bursts: lower it or factor")
    bursts = Bursts(share, section.number("length_ms", above=0.0), factor)
    section.done()
    return bursts


def _excitation(section: _Section) -> Excitation:
    usual = Excitation()
    excitation = Excitation(
        section.number("branching", maximum=0.98, default=usual.branching),
        section.number("cluster_size", minimum=1.0, maximum=1000.0, default=usual.together),
        section.number("fast_share", maximum=1.0, default=usual.near),
        section.number("fast_us", above=0.0, default=usual.near_us),
        section.number("slow_ms", above=0.0, default=usual.far_ms),
        section.number("same_instrument_share", maximum=1.0, default=usual.same),
    )
    section.done()
    return excitation


def _makers(section: _Section) -> Makers:
    usual = Makers()
    makers = Makers(
        section.number("share", maximum=1.0, default=usual.share),
        section.number("lifetime_ms", above=0.0, default=usual.life_ms),
        section.number("lifetime_sigma", maximum=4.0, default=usual.life_spread),
        section.number("replace_share", maximum=0.95, default=usual.replace),
        section.number("improve_share", maximum=1.0, default=usual.improve),
        section.number("deep_share", maximum=1.0, default=usual.deep),
        section.number("deep_lifetime_ms", above=0.0, default=usual.deep_ms),
    )
    section.done()
    return makers


def _book(section: _Section) -> BookSize:
    orders = section.count("orders", minimum=1)
    book = BookSize(
        orders,
        section.count("min_orders", minimum=1),
        section.count("large_books"),
        section.count("large_book_orders", minimum=1),
    )
    if book.least > orders:
        section.wrong("min_orders", f"must not be greater than orders ({orders}), was {book.least}")
    section.done()
    return book


def _prices(section: _Section) -> Prices:
    prices = Prices(
        section.number("half_spread", minimum=0.5),
        section.number("near_ticks", above=0.0),
        section.number("far_ticks", above=0.0),
        section.number("far_share", maximum=1.0),
        section.number("auction_reach", above=0.0),
    )
    section.done()
    return prices


def _fair_value(section: _Section) -> FairValue:
    fair_value = FairValue(
        section.number("volatility", maximum=100.0),
        section.number("clustering", minimum=1.0, maximum=1.5),
        section.number("impact", maximum=100.0),
        section.number("permanent_share", maximum=1.0),
        section.number("relaxation", minimum=1.0),
    )
    section.done()
    return fair_value


def _takers(section: _Section) -> Takers:
    takers = Takers(
        section.count("parents", minimum=1, maximum=1000),
        section.number("exponent", above=0.0, maximum=10.0),
        section.count("longest", minimum=1),
        section.number("level_share", maximum=1.0),
        section.number("sweep_share", maximum=1.0),
    )
    section.done()
    return takers


def _quantities(section: _Section) -> Quantities:
    lots = section.numbers("lots")
    weights = section.numbers("weights")
    if any(lot < 1 or lot != int(lot) for lot in lots):
        section.wrong("lots", "must be integers of at least 1")
    if len(lots) != len(weights):
        section.wrong(
            "weights", f"must have one number per entry of lots ({len(lots)}), has {len(weights)}"
        )
    if not sum(weights):
        section.wrong("weights", "must not sum to 0")
    section.done()
    return Quantities(tuple(int(lot) for lot in lots), weights)


def _operations(section: _Section) -> dict[str, int]:
    operations = {name: section.count(name, default=0) for name in OPERATIONS}
    section.done()
    return operations


def _shocks(section: _Section) -> Shocks:
    shocks = Shocks(section.count("count"), section.span("percent", minimum=0.0, maximum=50.0))
    section.done()
    return shocks


def _members(section: _Section) -> Members:
    members = Members(
        section.count("firms", minimum=2, maximum=9999),
        section.count("sessions", minimum=1, maximum=1000),
        section.number("shown_share", maximum=1.0, default=1.0),
        section.number("top_five_share", maximum=1.0, default=0.6),
    )
    section.done()
    return members


class _Section:
    """A table of a profile, whose errors have the full name of an entry."""

    def __init__(self, where: str, name: str, data: Mapping[str, Any]) -> None:
        self._where = where
        self._name = name
        self._left = dict(data)

    def wrong(self, key: str, why: str) -> NoReturn:
        """Raise the error of an entry."""
        raise UsageError(f"{self._where}: {self._full(key)} {why}")

    def _full(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key

    def _take(self, key: str) -> Any:
        if key not in self._left:
            self.wrong(key, "is missing")
        return self._left.pop(key)

    def _each(self, key: str, check: Callable[[str, Any], _Value]) -> tuple[_Value, ...]:
        values = self._take(key)
        if not isinstance(values, list) or not values:
            self.wrong(key, "must be a non-empty list")
        return tuple(check(key, value) for value in values)

    def _number(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(key, f"must be a number, was {value!r}")
        if not math.isfinite(value) or value < 0:
            self.wrong(key, f"must be finite and not negative, was {value}")
        return float(value)

    def done(self) -> None:
        """Raise the error of the first unknown entry, if any."""
        for key in self._left:
            self.wrong(key, "is not a known entry of a profile")

    def auction_rules(self, key: str) -> AuctionRules | None:
        """Return the rules by which auctions end, or None if the entry is missing."""
        data = self._left.pop(key, None)
        try:
            return None if data is None else parse_auction_rules(data)
        except ValueError as error:
            self.wrong(key, f"is invalid: {error}")

    def section(self, key: str, *, optional: bool = False) -> _Section:
        """Return a nested table; an optional one may be missing."""
        data = self._left.pop(key, {}) if optional else self._take(key)
        if not isinstance(data, dict):
            self.wrong(key, "must be a table")
        return _Section(self._where, self._full(key), data)

    def number(
        self,
        key: str,
        *,
        minimum: float = 0.0,
        above: float | None = None,
        maximum: float = 1e9,
        default: float | None = None,
    ) -> float:
        """Return one number within bounds."""
        if default is not None and key not in self._left:
            return default
        value = self._number(key, self._take(key))
        if above is not None and value <= above:
            self.wrong(key, f"must be greater than {above:g}, was {value:g}")
        if not minimum <= value <= maximum:
            self.wrong(key, f"must be from {minimum:g} to {maximum:g}, was {value:g}")
        return value

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of numbers, none of them negative."""
        return self._each(key, self._number)

    def span(self, key: str, *, minimum: float, maximum: float = 1e6) -> tuple[float, float]:
        """Return a lowest and a highest number."""
        values = self.numbers(key)
        if len(values) != 2 or not minimum <= values[0] <= values[1] <= maximum:
            self.wrong(
                key, f"must be two numbers from {minimum:g} to {maximum:g}, the lower one first"
            )
        return values[0], values[1]

    def count(
        self, key: str, *, minimum: int = 0, maximum: int = _MAX_COUNT, default: int | None = None
    ) -> int:
        """Return an integer within bounds."""
        value = self._left.pop(key, default) if default is not None else self._take(key)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            self.wrong(key, f"must be an integer from {minimum} to {maximum}, was {value!r}")
        return int(value)

    def mix(self, names: tuple[str, ...]) -> dict[str, float]:
        """Return weights by name; missing ones are 0, but not all of them may be."""
        mix = {
            name: self._number(name, self._left.pop(name)) if name in self._left else 0.0
            for name in names
        }
        self.done()
        if not sum(mix.values()):
            raise UsageError(
                f"{self._where}: the weights of {self._name} must not sum to 0; set one of "
                f"{', '.join(names)}"
            )
        return mix

    def known_numbers(self, names: tuple[str, ...]) -> dict[str, float]:
        """Return numbers by name; any may be missing."""
        found = {
            name: self._number(name, self._left.pop(name)) for name in names if name in self._left
        }
        self.done()
        return found

    def security_types(self, key: str) -> tuple[SecurityType, ...]:
        """Return security types by their names."""
        return self._each(key, self._security_type)

    def _security_type(self, key: str, value: Any) -> SecurityType:
        if not isinstance(value, str) or value not in SecurityType.__members__:
            known = ", ".join(SecurityType.__members__)
            self.wrong(key, f"has an unknown type {value!r}; choose from {known}")
        return SecurityType[value]

    def weight_by_symbol(self, key: str) -> dict[str, float]:
        """Return extra weights by symbol; `activity_weights` later checks that they exist."""
        data = self._take(key)
        if not isinstance(data, dict):
            self.wrong(key, "must be a table")
        return {symbol: self._number(f"{key}.{symbol}", data[symbol]) for symbol in data}


def _bundle() -> dict[str, dict[str, Any]]:
    text = (
        resources.files("pregao.exchange.traders")
        .joinpath("profiles.toml")
        .read_text(encoding="utf-8")
    )
    return parse_toml(text)
