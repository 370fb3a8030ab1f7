"""Draw a simulated flow beside real figures: ``python packaging/draw_flow.py`` writes a picture.

The picture is docs/pictures/flow.png: price, spread, depth and autocorrelation of signs of the
busiest instrument in an hour of `equities`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.flow import DAYS, TARGETS, autocorrelation, simulate_flow  # noqa: E402

PICTURE = ROOT / "docs" / "pictures" / "flow.png"
TEAL, RED, BLUE, AMBER = "#0b8f7a", "#d6473f", "#2f6fde", "#c98512"
LAGS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100)
REAL = {1: "autocorrelation of signs, lag 1", 5: "autocorrelation of signs, lag 5"}


def main() -> None:
    """Simulate the hour and draw it."""
    plt.switch_backend("Agg")
    record = simulate_flow(DAYS["equities"])
    flow = max(record.instruments.values(), key=lambda each: len(each.times))
    start = flow.times[0]
    minutes = (np.array(flow.times) - start) / 6e10
    prices = np.array(flow.prices) * flow.tick / 1e4
    rows = np.array(flow.samples)
    sampled = (rows[:, 0] - start) / 6e10
    figure, ((price, spread), (depth, signs)) = plt.subplots(2, 2, figsize=(11, 7))

    price.plot(minutes, prices, color=TEAL, lw=0.7, drawstyle="steps-post")
    price.set(title="Last price", xlabel="minutes", ylabel="BRL")
    ticks, counts = np.unique(rows[:, 1], return_counts=True)
    shown = ticks <= 8
    spread.bar(ticks[shown], counts[shown] / len(rows), color=BLUE)
    spread.set(title="Bid-ask spread", xlabel="ticks", ylabel="share of seconds")
    depth.plot(sampled, rows[:, 2], color=TEAL, lw=0.8, label="bids")
    depth.plot(sampled, rows[:, 3], color=RED, lw=0.8, label="offers")
    depth.set(title="Orders per side", xlabel="minutes", ylim=(0, None))
    depth.legend(frameon=False)
    values = np.array(flow.signs, float)
    signs.plot(
        LAGS, [autocorrelation(values, lag) for lag in LAGS], "o-", color=TEAL, label="simulated"
    )
    for lag, name in REAL.items():
        low, high = TARGETS["equities"][name]
        label = "real, busy option series" if lag == 1 else None
        signs.plot((lag, lag), (low, high), color=AMBER, lw=6, alpha=0.6, label=label)
    signs.set(title="Autocorrelation of aggressor signs", xlabel="lag in aggressions", xscale="log")
    signs.axhline(0, color="#9aa7b3", lw=0.8)
    signs.legend(frameon=False)
    for axes in (price, spread, depth, signs):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
