"""Plots: they show the content of the lake, and errors are one line."""

import numpy as np
import pytest
from typer.testing import CliRunner

import pregao
from pregao.cli.main import app
from pregao.errors import NothingFoundError, UsageError

pytestmark = pytest.mark.slow

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    pregao.simulate(folder / "day", instruments=3, messages=3000, duration="3m", loss="A=0.02")
    made = pregao.Lake(folder / "lake")
    made.ingest(folder / "day")
    return made


def lake_path(lake):
    return repr(lake).split("'")[1]


def drawn(lake, tmp_path, *arguments, name="picture.png"):
    output = tmp_path / name
    arguments = ["plot", *arguments, "--lake", lake_path(lake), "-o", str(output)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.exception
    return output.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["heatmap", "petr4"], ["depth", "PETR4"], ["tape", "PETR4"], ["bars", "PETR4"],
        ["latency", "--measure", "engine"], ["gaps"],
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_every_picture_is_drawn_and_shows_in_notebooks(lake, tmp_path, arguments):
    assert drawn(lake, tmp_path, *arguments).startswith(PNG)


def test_the_name_determines_the_format(lake, tmp_path):
    assert b"<svg" in drawn(lake, tmp_path, "depth", "PETR4", name="depth.svg")[:600]
    assert pregao.plot.depth(lake, "PETR4")._repr_png_().startswith(PNG)


def texts(chart):
    """The headings of a chart, and the labels of its lowest axis."""
    return [each.get_text() for each in chart.texts] + [chart.axes[-1].get_xlabel()]


def test_times_are_read_and_shown_in_utc_unless_a_zone_is_named(lake):
    counted = "symbol = 'PETR4' AND NOT busted AND sets_last_price"
    times = lake.table("trades", columns=["time"], where=counted)["time"].to_pylist()
    first, middle = times[0], times[len(times) // 2]
    until = f"{middle:%Y-%m-%d %H:%M:%S}"
    utc = pregao.plot.tape(lake, "PETR4", until=until)
    assert f"{first:%Y-%m-%d}, {first:%H:%M:%S} to" in texts(utc)[1]
    assert texts(utc)[1].endswith("(UTC)")
    assert texts(utc)[2] == "time (UTC)"
    there = f"{middle:%Y-%m-%d} {middle.hour - 3:02}:{middle:%M:%S}"
    local = pregao.plot.tape(lake, "PETR4", until=there, tz="America/Sao_Paulo")
    assert texts(local)[2] == "time (America/Sao_Paulo)"
    assert f", {first.hour - 3:02}:{first:%M:%S} to" in texts(local)[1]
    dots = [
        [each.get_offsets().tolist() for each in chart.axes[0].collections]
        for chart in (utc, local)
    ]
    assert dots[0] == dots[1] != []
    at = f"{until}.5"
    assert f"{at} (UTC), " in texts(pregao.plot.depth(lake, "PETR4", at))[1]


def test_the_depth_is_that_of_the_book(lake):
    book = lake.book("PETR4")
    (axes,) = pregao.plot.depth(book).axes
    bids = next(line for line in axes.get_lines() if line.get_label().startswith("bids"))
    prices = [float(level.price) for level in book.bids if level.price is not None][:60]
    sizes = [level.size for level in book.bids if level.price is not None][:60]
    np.testing.assert_allclose(bids.get_xdata(), prices)
    np.testing.assert_array_equal(bids.get_ydata(), np.cumsum(sizes))


def test_the_tape_has_every_trade_that_counts(lake):
    axes = pregao.plot.tape(lake, "PETR4").axes[0]
    counted = lake.sql(
        "SELECT count(*) AS n FROM trades WHERE symbol = 'PETR4' AND NOT busted AND sets_last_price"
    )
    assert sum(len(each.get_offsets()) for each in axes.collections) == counted["n"][0].as_py()


def test_the_heatmap_shows_the_last_book_in_its_last_column(lake):
    book = lake.book("PETR4")
    axes = pregao.plot.heatmap(lake, "PETR4").axes[0]
    heat = axes.collections[0].get_array().filled(0)
    low, high = axes.get_ylim()
    levels = [level for level in (*book.bids[:10], *book.asks[:10]) if level.price is not None]
    inside = sum(level.size for level in levels if low < level.price < high)
    assert heat[:, -1].sum() == inside > 0


def test_the_heatmap_shows_prices_around_the_balance_of_an_auction(lake):
    ticks = lake.ticks("PETR4", where="bid_price_2 > ask_price_2", columns=["sending_time_ns"])
    last = ticks["sending_time_ns"][-1].as_py()
    first = ticks["sending_time_ns"][0].as_py()
    book = lake.book("PETR4", last)
    sizes = {}
    for level in (*book.bids, *book.asks):
        if level.price is not None:
            sizes[float(level.price)] = sizes.get(float(level.price), 0) + level.size
    axes = pregao.plot.heatmap(lake, "PETR4", first, last + 1).axes[0]
    mesh = axes.collections[0]
    column = mesh.get_array()[:, -1].filled(0)
    borders = mesh.get_coordinates()[:, 0, 1]
    shown = {
        round(float(low + high) / 2, 2): size
        for low, high, size in zip(borders, borders[1:], column, strict=False)
        if size
    }
    (balance,) = (each for each in axes.lines if each.get_label().startswith("balance"))
    middle = balance.get_ydata()[-1]
    bids, asks = (
        sum(each.size for each in side if each.price is None or each.price * sign >= middle * sign)
        for side, sign in ((book.bids, 1), (book.asks, -1))
    )
    assert abs(bids - asks) < max(bids, asks)
    inside = {price: size for price, size in sizes.items() if borders[0] < price < borders[-1]}
    assert shown == pytest.approx(inside)
    assert min(inside) < middle < max(inside)
    assert len(inside) > 2


def test_an_error_is_one_line(lake, tmp_path):
    for arguments, words in (
        (["depth", "PETR4", "-o", "x.txt"], "must end in .png, .svg, .pdf"),
        (["depth", "-o", "x.png"], "requires a SYMBOL"),
        (["gaps", "PETR4", "-o", "x.png"], "omit SYMBOL"),
        (["tape", "PETR4", "--at", "2026-05-21", "-o", "x.png"], "--since and --until"),
    ):
        result = CliRunner().invoke(app, ["plot", *arguments, "--lake", lake_path(lake)])
        assert words in str(result.exception)
    with pytest.raises(NothingFoundError, match="no trades of NONE4 in this time range"):
        pregao.plot.tape(lake, "NONE4")
    with pytest.raises(UsageError, match="one of network"):
        pregao.plot.latency(lake, "light")
