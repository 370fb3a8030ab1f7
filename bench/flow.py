"""Simulated order flow: its figures for each profile, next to those of real markets.

`simulate_flow` runs a day without files and records what happens in continuous trading; `figures`
reduces the record to numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Row
from pregao.cli.simulate.like import WORDS, simulated_flow
from pregao.clock import HOUR, MILLISECOND, MINUTE, SECOND
from pregao.exchange.engine.model.enums import AggressorSide, OrderSide, TradingStatus
from pregao.exchange.engine.model.events import (
    DeleteOrderMbo,
    ExecutionSummary,
    MarketEvent,
    NewOrderMbo,
    PriceBand,
    Trade,
)
from pregao.exchange.simulation.day_trading import DayTrading
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.exchange.simulation.truth import TruthBook
from pregao.exchange.traders.profiles import load_profile

SECTION = "flow"
CALIBRATED = "thin-derivatives"
GRID_S = 10
"""Interval of the prices that variance ratios are computed from, in seconds."""
_BUSY = 4
"""Number of the busiest instruments that figures of trades are computed from."""
_BOOKS_NS = SECOND
"""Interval at which spread and orders per side are sampled."""
_FAR_TICKS = 10
_SHOCKS = ("delete_side", "reset_book", "pause", "cancel_order")
"""Market operations that move prices like news."""

Target = tuple[float, float]
"""Lowest and highest figure of real days."""

_ANY: dict[str, Target] = {
    "autocorrelation of signs, lag 1": (0.40, 0.74),
    "autocorrelation of signs, lag 5": (0.03, 0.43),
    "exponent of impact": (0.4, 0.6),
    "kurtosis of 1 s returns": (5, 50),
    "longest run of signs": (16, 91),
    "sides of the top five brokers": (0.60, 0.60),
}
_PRICES: dict[str, Target] = {
    "variance ratio at 20 s": (0.72, 0.93),
    "variance ratio at 60 s": (0.53, 0.76),
    "variance ratio at 300 s": (0.51, 0.61),
    "trades at an unchanged price": (0.63, 0.72),
    "longest run of price changes": (9, 12),
    "mean run of price changes": (1.3, 1.6),
}
_DERIVATIVES: dict[str, Target] = {"packets up to 128 bytes": (0.83, 0.83)}
TARGETS: dict[str, dict[str, Target]] = {
    "equities": _ANY
    | _PRICES
    | {"packets up to 128 bytes": (0.62, 0.62), "packets of 129 to 192 bytes": (0.36, 0.36)},
    "derivatives": _ANY | _PRICES | _DERIVATIVES,
    "stress": _ANY | _PRICES,
    "thin-derivatives": _DERIVATIVES
    | {
        "trades per aggression": (2.28, 2.28),
        "cancels per trade": (14.7, 14.7),
        "lifetime of canceled orders, p90 (ms)": (14_000, 14_000),
        "bands, share of messages": (0.032, 0.032),
        "orders over 10 ticks away": (0.31, 0.31),
        "spread in ticks, median": (42, 42),
        "orders per side, p90": (40, 40),
    },
}
"""Figures of real days: an index ETF for prices, busy options for signs, a thin channel."""
_HOUR: dict[str, Any] = {"instruments": 4, "rate": 100.0, "duration_ns": HOUR}
DAYS = {
    "equities": SimulationSettings("equities", Path(), **_HOUR),
    "derivatives": SimulationSettings("derivatives", Path(), **_HOUR),
    "stress": SimulationSettings("stress", Path(), **_HOUR),
    "thin-derivatives": SimulationSettings("thin-derivatives", Path(), duration_ns=2 * MINUTE),
}


@dataclass
class InstrumentFlow:
    """What happened in one instrument during continuous trading."""

    tick: int
    lot: int
    times: list[int] = field(default_factory=list)
    signs: list[int] = field(default_factory=list)
    """Time and sign of each aggression, one of the entries below for each."""
    sizes: list[int] = field(default_factory=list)
    prices: list[int] = field(default_factory=list)
    """Last price of each aggression, in ticks."""
    middles: list[float] = field(default_factory=list)
    """Middle of bid and offer before each aggression, in ticks."""
    trades: int = 0
    unchanged: int = 0
    """Trades at the price of the previous one."""
    last: int | None = None
    directions: list[int] = field(default_factory=list)
    """Sign of each change of price between trades."""
    middle: float | None = None
    samples: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Time, spread in ticks, and orders of each side, once a second."""


class FlowRecord:
    """Listener of a day's trading that records its flow in continuous trading."""

    def __init__(self, simulation: Simulation) -> None:
        self._publisher = simulation.publisher
        self._market = simulation.trading.engine.market
        self.instruments: dict[int, InstrumentFlow] = {}
        self.payloads: Counter[int] = Counter()
        self.brokers: Counter[int] = Counter()
        self.lifetimes: list[int] = []
        self.distances: list[int] = []
        self.new_orders = self.cancels = self.trades = self.bands = self.recorded = 0
        self._born: dict[tuple[int, OrderSide, int], int] = {}
        self._sampled_ns = 0

    def begin(self, now_ns: int) -> None:
        self._publisher.initialize(now_ns)

    def publish(
        self, units: Sequence[MarketEvent], now_ns: int, security_id: int | None = None
    ) -> None:
        datagrams = self._publisher.publish(units, now_ns)
        if security_id is None:
            for unit in units:
                self.bands += sum(isinstance(item, PriceBand) for item in unit.items)
            return
        listing = self._market.listings[security_id]
        if listing.status != TradingStatus.OPEN:
            return
        for datagram in datagrams:
            if datagram.stream.name == "INCREMENTAL":
                self.payloads[len(datagram.payload)] += 1
        for unit in units:
            self._record(unit, now_ns)
        flow = self._flow(security_id)
        bid, offer = listing.bids.best_price(), listing.offers.best_price()
        if bid is not None and offer is not None:
            flow.middle = (bid + offer) / 2 / flow.tick
        if now_ns - self._sampled_ns >= _BOOKS_NS:
            self._sampled_ns = now_ns
            self._sample(now_ns)

    def _record(self, unit: MarketEvent, now_ns: int) -> None:
        summary: ExecutionSummary | None = None
        trades: list[Trade] = []
        traded = any(isinstance(item, Trade) for item in unit.items)
        for item in unit.items:
            self.recorded += 1
            if isinstance(item, NewOrderMbo):
                if item.implied or item.price is None:
                    continue
                self.new_orders += 1
                self._born[item.security_id, item.side, item.secondary_order_id] = now_ns
                listing = self._market.listings[item.security_id]
                best = listing.side(item.side).best_price()
                if best is not None:
                    self.distances.append(abs(best - item.price) // listing.tick)
            elif isinstance(item, DeleteOrderMbo):
                born = self._born.pop((item.security_id, item.side, item.secondary_order_id), None)
                if born is not None and not traded:
                    self.cancels += 1
                    self.lifetimes.append(now_ns - born)
            elif isinstance(item, ExecutionSummary):
                summary = item
            elif isinstance(item, Trade) and item.trd_sub_type is None:
                trades.append(item)
        if summary is not None and trades:
            self._aggression(summary, trades, now_ns)

    def _aggression(self, summary: ExecutionSummary, trades: list[Trade], now_ns: int) -> None:
        flow = self._flow(summary.security_id)
        sign = {AggressorSide.BUY: 1, AggressorSide.SELL: -1}.get(summary.aggressor_side, 0)
        mine = [trade for trade in trades if trade.security_id == summary.security_id]
        if not sign or not mine:
            return
        for trade in mine:
            price = trade.price // flow.tick
            if flow.last is not None:
                flow.unchanged += price == flow.last
                if price != flow.last:
                    flow.directions.append(1 if price > flow.last else -1)
            flow.last = price
            self.brokers.update(firm for firm in (trade.buyer, trade.seller) if firm)
        flow.trades += len(mine)
        self.trades += len(mine)
        flow.times.append(now_ns)
        flow.signs.append(sign)
        flow.sizes.append(sum(trade.size for trade in mine) // flow.lot)
        flow.prices.append(mine[-1].price // flow.tick)
        flow.middles.append(np.nan if flow.middle is None else flow.middle)

    def _flow(self, security_id: int) -> InstrumentFlow:
        flow = self.instruments.get(security_id)
        if flow is None:
            listing = self._market.listings[security_id]
            flow = self.instruments[security_id] = InstrumentFlow(listing.tick, listing.lot)
        return flow

    def _sample(self, now_ns: int) -> None:
        for number, listing in self._market.listings.items():
            if listing.status != TradingStatus.OPEN or number not in self.instruments:
                continue
            bid, offer = listing.bids.best_price(), listing.offers.best_price()
            if bid is None or offer is None:
                continue
            self.instruments[number].samples.append(
                (now_ns, (offer - bid) // listing.tick, listing.bids.count, listing.offers.count)
            )

    def book(self, book: TruthBook) -> None:
        """Ignore the books of the truth."""

    def progress(self, done: float) -> None:
        """Ignore the progress."""

    def messages(self) -> int:
        return self._publisher.messages

    def end(self, now_ns: int) -> None:
        """Ignore the end."""


def simulate_flow(settings: SimulationSettings, shocks: bool = False) -> FlowRecord:
    """Simulate a day without files, by default one without shocks, and record its flow."""
    simulation = Simulation(settings)
    trading = simulation.trading
    if not shocks:
        profile = trading.profile
        quiet = {name: 0 if name in _SHOCKS else n for name, n in profile.operations.items()}
        calm = replace(profile, shocks=replace(profile.shocks, count=0), operations=quiet)
        simulation.trading = DayTrading(settings, calm, simulation.instruments, simulation.day)
    record = FlowRecord(simulation)
    simulation.trading.run(record)
    return record


def figures(record: FlowRecord) -> dict[str, float]:
    """Return the figures of a recorded flow by their labels."""
    busy = sorted(record.instruments.values(), key=lambda flow: -len(flow.times))[:_BUSY]
    found: dict[str, float] = {}
    grids = [_on_grid(flow, GRID_S) for flow in busy]
    for steps in (2, 6, 30):
        found[f"variance ratio at {steps * GRID_S} s"] = _mean(
            [_variance_ratio(grid, steps) for grid in grids]
        )
    for lag in (1, 5, 20):
        found[f"autocorrelation of signs, lag {lag}"] = _mean(
            [autocorrelation(np.array(flow.signs, float), lag) for flow in busy]
        )
    for lag in (1, 10):
        found[f"autocorrelation of absolute returns, lag {lag}"] = _mean(
            [autocorrelation(np.abs(np.diff(grid)), lag) for grid in grids]
        )
    found["exponent of impact"] = impact_exponent(busy)
    found["kurtosis of 1 s returns"] = _mean(
        [_kurtosis(np.diff(_on_grid(flow, 1))) for flow in busy]
    )
    trades = sum(flow.trades for flow in busy)
    found["trades at an unchanged price"] = sum(flow.unchanged for flow in busy) / max(trades, 1)
    found["longest run of price changes"] = max(_runs(flow.directions).max() for flow in busy)
    found["mean run of price changes"] = _mean([_runs(flow.directions).mean() for flow in busy])
    found["longest run of signs"] = max(_runs(flow.signs).max() for flow in busy)
    aggressions = sum(len(flow.times) for flow in record.instruments.values())
    found["trades per aggression"] = record.trades / max(aggressions, 1)
    found["cancels per trade"] = record.cancels / max(record.trades, 1)
    lives = np.array(record.lifetimes or [0]) / MILLISECOND
    for share in (10, 50, 90):
        found[f"lifetime of canceled orders, p{share} (ms)"] = float(np.percentile(lives, share))
    sizes = np.repeat(list(record.payloads), list(record.payloads.values()))
    found["packets up to 128 bytes"] = float((sizes <= 128).mean())
    found["packets of 129 to 192 bytes"] = float(((sizes > 128) & (sizes <= 192)).mean())
    found["bands, share of messages"] = record.bands / max(record.bands + record.recorded, 1)
    found["orders over 10 ticks away"] = float(np.mean(np.array(record.distances) > _FAR_TICKS))
    samples = np.array([row for flow in record.instruments.values() for row in flow.samples])
    found["spread in ticks, median"] = float(np.median(samples[:, 1]))
    found["orders per side, p90"] = float(np.percentile(samples[:, 2:], 90))
    sides = record.brokers.most_common()
    found["sides of the top five brokers"] = sum(n for _, n in sides[:5]) / max(
        sum(n for _, n in sides), 1
    )
    return found


def _mean(values: Sequence[float]) -> float:
    kept = [float(value) for value in values if np.isfinite(value)]
    return float(np.median(kept)) if kept else float("nan")


def _on_grid(flow: InstrumentFlow, seconds: int) -> Any:
    """Return the last price in each interval of a grid."""
    if len(flow.times) < 2:
        return np.zeros(0)
    grid = np.arange(flow.times[0], flow.times[-1], seconds * SECOND)
    return np.array(flow.prices, float)[np.searchsorted(flow.times, grid, "right") - 1]


def _variance_ratio(prices: Any, steps: int) -> float:
    """Return the variance of changes over some steps, relative to that of a random walk."""
    one = np.diff(prices)
    more = prices[steps:] - prices[:-steps]
    if len(more) < 2 * steps or not one.var():
        return float("nan")
    return float((more.var() / steps) / one.var())


def autocorrelation(values: Any, lag: int) -> float:
    if len(values) < 10 * lag or not len(values) or not values.var():
        return float("nan")
    centered = values - values.mean()
    return float((centered[lag:] * centered[:-lag]).mean() / values.var())


def _kurtosis(values: Any) -> float:
    if len(values) < 10 or not values.var():
        return float("nan")
    return float(((values - values.mean()) ** 4).mean() / values.var() ** 2)


def _runs(signs: Sequence[int]) -> Any:
    """Return the lengths of runs of equal signs."""
    if not signs:
        return np.zeros(1)
    edges = np.flatnonzero(np.diff(signs)) + 1
    return np.diff(np.concatenate([[0], edges, [len(signs)]]))


def impact_exponent(flows: Sequence[InstrumentFlow], ahead: int = 1) -> float:
    """Return the exponent of size in the mean change of the middle after an aggression.

    The change is from just before an aggression to just before one of the next.
    """
    by_size: dict[int, list[float]] = defaultdict(list)
    for flow in flows:
        middles = np.array(flow.middles)
        moved = (middles[ahead:] - middles[:-ahead]) * np.array(flow.signs[:-ahead])
        for size, change in zip(flow.sizes, moved, strict=False):
            if np.isfinite(change) and size > 0:
                by_size[int(np.log2(size))].append(float(change))
    kept = {bin_: np.mean(each) for bin_, each in by_size.items() if len(each) >= 100}
    usable = [bin_ for bin_ in kept if kept[bin_] > 0]
    if len(usable) < 2:
        return float("nan")
    weights = np.sqrt([len(by_size[bin_]) for bin_ in usable])
    sizes, moves = np.array(usable) * np.log(2), np.log([kept[bin_] for bin_ in usable])
    return float(np.polyfit(sizes, moves, 1, w=weights)[0])


def run() -> Iterator[Row]:
    for profile, settings in DAYS.items():
        targets = TARGETS[profile]
        for label, value in figures(simulate_flow(settings)).items():
            if not np.isfinite(value):
                continue
            wanted = f"real {_shown(targets[label])}" if label in targets else ""
            yield Row(SECTION, f"{profile}: {label}", float(value), "", wanted)
    given = simulated_flow(
        SimulationSettings(CALIBRATED, Path(), duration_ns=60 * SECOND, schema_version=8)
    )
    for name, real in load_profile(CALIBRATED).calibrated.items():
        was = getattr(given, name)
        yield Row(SECTION, WORDS[name], was, "", f"real {real:g}", f"ratio {was / real:.2f}")


def _shown(target: tuple[float, float]) -> str:
    low, high = target
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
