"""The page's data of a lake equals the lake's content."""

import json
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.web.json_encoding import midnight_ns
from tests.web import visiting
from tests.web.conftest import DAY

BASE = midnight_ns(date.fromisoformat(DAY))


def get(server, path, **parameters):
    answer = visiting.get(server, path, **parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def own(busiest, **more):
    return {name: busiest[name] for name in ("day", "channel", "id")} | more


@pytest.fixture(scope="module")
def about(server, busiest):
    return get(server, "api/instrument", **own(busiest))


def levels(side):
    return [(None if price is None else price, size, orders) for price, size, orders in side]


def lake_levels(side):
    return [
        (None if level.price is None else int(level.price * 10_000), level.size, level.orders)
        for level in side
    ]


def test_the_page_exists(server):
    answer = visiting.get(server)
    assert answer.status_code == 200
    assert "Pregão" in answer.text
    for name in ("style.css", "js/main.js", "vendor/lightweight-charts.mjs", "icon.svg"):
        assert visiting.get(server, f"static/{name}").status_code == 200


def test_about_and_search(server, busiest):
    answer = get(server, "api/about")
    assert (answer["mode"], [one["day"] for one in answer["days"]]) == ("lake", [DAY])
    found = get(server, "api/instruments", day=DAY, q=busiest["symbol"].lower())
    assert found["instruments"][0]["symbol"] == busiest["symbol"]
    assert get(server, "api/instruments", day=DAY, q="no such thing")["count"] == 0
    by_number = get(server, "api/instruments", day=DAY, q=busiest["id"])
    assert [one["symbol"] for one in by_number["instruments"]] == [busiest["symbol"]]


def test_books_at_any_time_are_the_lakes(server, lake, busiest, about):
    assert about["begin"] < about["end"]
    for at in np.linspace(about["begin"] - 10**9, about["end"] + 10**9, 9).astype(int).tolist():
        shown = get(server, "api/book", **own(busiest, at=at))
        book = lake.book(busiest["symbol"], BASE + at)
        assert shown["state"] == book.state.name.lower()
        assert shown["number"] == book.sequence_number
        for side, mine in zip(shown["sides"], (book.bids, book.asks), strict=True):
            assert levels(side["levels"]) == lake_levels(mine)[: len(side["levels"])]
            assert side["orders"] == sum(level.orders for level in mine)
        last = None if book.last_price is None else int(book.last_price * 10_000)
        assert shown["last"] == last


def test_trades_are_the_lakes(server, lake, busiest, about):
    rows = lake.sql(
        "SELECT sending_time_ns, price, size, busted FROM trades "
        f"WHERE security_id = {busiest['id']} ORDER BY sending_time_ns"
    ).to_pylist()
    assert about["trades"] == len(rows) > 20
    middle = rows[len(rows) // 2]["sending_time_ns"]
    shown = get(server, "api/trades", **own(busiest, at=middle - BASE, limit=10))
    past = [row for row in rows if row["sending_time_ns"] <= middle][-10:]
    assert [one[0] + BASE for one in shown] == [row["sending_time_ns"] for row in past]
    assert sorted(one[1:3] for one in shown) == sorted(
        [int(row["price"] * 10_000), row["size"]] for row in past
    )
    assert sum(about["activity"]) == sum(row["size"] for row in rows)


def test_a_replay_shows_books_at_that_time(server, lake, busiest, about):
    begin = (about["begin"] + about["end"]) // 2
    step = 500_000_000
    request = own(busiest, request=7, step=step, to=begin + 20 * step) | {"from": begin}
    with visiting.socket_of(server, "ws/replay") as socket:
        socket.send(json.dumps(request))
        reply = json.loads(socket.recv())
        socket.send("nonsense")
        assert "error" in json.loads(socket.recv())
        socket.send(json.dumps({**request, "step": 1}))
        assert "step must be" in json.loads(socket.recv())["error"]
        socket.send(json.dumps({**request, "to": begin + 300 * step}))
        assert "At most" in json.loads(socket.recv())["error"]
    assert reply["request"] == 7
    assert len(reply["frames"]) > 5
    for frame in reply["frames"][::4]:
        assert (frame["at"] - begin) % step == 0
        book = lake.book(busiest["symbol"], BASE + frame["at"])
        assert frame["state"] == book.state.name.lower()
        for side, mine in zip(frame["sides"], (book.bids, book.asks), strict=True):
            assert levels(side["levels"]) == lake_levels(mine)[: len(side["levels"])]
    assert all(begin < trade[0] <= begin + 20 * step for trade in reply["trades"])


def test_the_heatmap_has_the_books_of_its_times(server, lake, busiest, about):
    begin = (about["begin"] + about["end"]) // 2
    heatmap = get(
        server, "api/heatmap", **own(busiest, to=begin + 60 * 10**9, columns=30), **{"from": begin}
    )
    assert len(heatmap["times"]) == len(heatmap["columns"]) == 30
    shown = None
    for time, column in zip(heatmap["times"], heatmap["columns"], strict=True):
        shown = column or shown
        if time % 5 == 0:
            book = lake.book(busiest["symbol"], BASE + time)
            if book.trusted:
                for mine, side in zip((book.bids, book.asks), shown, strict=True):
                    expected = [part for level in lake_levels(mine)[:10] for part in level[:2]]
                    assert side == expected


def test_jumps_go_to_the_next_and_the_last(server, busiest, about):
    for kind, times in (
        ("phase", [phase[0] for phase in about["phases"]]),
        ("gap", [gap[0] for gap in about["gaps"]]),
    ):
        assert times
        middle = times[len(times) // 2]
        following = [time for time in times if time > middle]
        before = [time for time in times if time < middle]
        at = own(busiest, at=middle, kind=kind)
        assert get(server, "api/jump", **at)["at"] == (following[0] if following else None)
        last = get(server, "api/jump", **at, direction="previous")["at"]
        assert last == (before[-1] if before else None)
    trade = get(server, "api/jump", **own(busiest, at=about["begin"], kind="trade"))["at"]
    tape = get(server, "api/trades", **own(busiest, at=trade, limit=1))
    assert tape[0][0] == trade


BAR = ("start_ns", "open", "high", "low", "close", "volume")


def test_bars_are_those_of_the_table_as_far_as_a_replay_has_come(server, lake, busiest, about):
    mine = f"security_id = {busiest['id']}"
    for interval in ("1s", "1m"):
        rows = lake.sql(
            f"SELECT {', '.join(BAR)} FROM bars WHERE {mine} AND interval = '{interval}' "
            "ORDER BY start_ns"
        ).to_pylist()
        table = [
            [row["start_ns"] - BASE, *(None if row[name] is None else int(row[name] * 10_000)
                                       for name in BAR[1:5]), row["volume"]]
            for row in rows
        ]  # fmt: skip
        assert get(server, "api/bars", **own(busiest, interval=interval)) == table != []
    trades = lake.sql(
        "SELECT sending_time_ns, time_ns, price, size, bust_time_ns FROM trades "
        f"WHERE {mine} ORDER BY sending_time_ns"
    ).to_pylist()
    length = 60 * 10**9
    for number in range(0, len(trades), 37):
        at = trades[number]["sending_time_ns"]
        known = [one for one in trades if one["sending_time_ns"] <= at
                 and not (one["bust_time_ns"] or at + 1) <= at]  # fmt: skip
        bars = get(server, "api/bars", **own(busiest, interval="1m", at=at - BASE))
        assert sum(bar[5] for bar in bars) == sum(one["size"] for one in known)
        last = bars[-1][0]
        own_bar = [one for one in known if (one["time_ns"] - BASE) // length * length == last]
        assert bars[-1][2] == max(int(one["price"] * 10_000) for one in own_bar)
        assert bars[-1][5] == sum(one["size"] for one in own_bar)
        fresh = get(server, "api/bars", **own(busiest, interval="1m", at=at - BASE, since=last))
        assert fresh == bars[-1:]


def test_auctions_are_drawn_around_the_price_at_which_the_sides_balance(
    server, lake, busiest, about
):
    begin, end = about["begin"], next(one[0] for one in about["phases"] if one[2] == "OPEN")
    heatmap = get(server, "api/heatmap", **own(busiest, to=end - 1, columns=20), **{"from": begin})
    book = lake.book(busiest["symbol"], BASE + end - 1)
    assert book.bids[0].price is None or book.bids[0].price > book.asks[-1].price
    bids, asks, balance = heatmap["columns"][-1] or next(
        one for one in reversed(heatmap["columns"]) if one
    )
    shown = get(server, "api/book", **own(busiest, at=end - 1))
    assert shown["auction"] == [bids, asks, balance]
    (auction,) = [one for one in get(server, "api/auctions", **own(busiest)) if one["end"] == end]
    prices = [price for _, price, _ in auction["path"] if price is not None]
    assert abs(balance - prices[-1]) <= 200
    for side, levels in ((bids, book.bids), (asks, book.asks)):
        sizes = {int(one.price * 10_000): one.size for one in levels if one.price is not None}
        assert dict(zip(side[::2], side[1::2], strict=True)).items() <= sizes.items()
        nearest = sorted(sizes, key=lambda price: abs(price - balance))[:40]
        assert sorted(side[::2]) == sorted(nearest)


def test_bars_auctions_latency_health_and_news(server, lake, busiest, about):
    assert get(server, "api/bars", **own(busiest, interval="'; DROP TABLE bars")) == []
    auctions = get(server, "api/auctions", **own(busiest))
    assert auctions
    assert auctions[0]["path"] == sorted(auctions[0]["path"], key=lambda one: one[0])
    health = get(server, "api/health", day=DAY)
    packets = lake.sql("SELECT count(*) AS n FROM packets").to_pylist()[0]["n"]
    assert sum(row["packets"] for row in health["packets"]) == packets
    assert health["gaps"]
    assert sum(health["states"].values()) == get(server, "api/instruments", day=DAY)["all"]
    latency = get(server, "api/latency", day=DAY, channel=busiest["channel"])
    assert latency["minutes"]
    assert isinstance(get(server, "api/news", day=DAY), list)


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("api/book", {"day": DAY, "channel": "51", "id": "1", "at": "0"}, "has no instrument 1"),
        ("api/book", {"day": "yesterday", "channel": "51", "id": "1", "at": "0"}, "must be a date"),
        ("api/book", {"day": DAY, "channel": "300", "id": "1", "at": "0"}, "channel must be"),
        ("api/book", {"day": DAY, "channel": "51", "id": "x", "at": "0"}, "an integer"),
        ("api/instruments", {}, "day is missing"),
        ("api/jump", {"day": DAY}, "kind is missing"),
    ],
)
def test_errors_are_reported(server, path, parameters, message):
    answer = visiting.get(server, path, **parameters)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


PATHS = ("instruments", "instrument", "book", "trades", "jump", "heatmap", "bars", "auctions",
         "health", "latency", "news")  # fmt: skip
ANYTHING = st.text(max_size=12) | st.integers(-(2**70), 2**70).map(str)


@settings(max_examples=60, deadline=None)
@given(
    path=st.sampled_from(PATHS),
    day=st.sampled_from([DAY, DAY, "2031-01-01"]) | ANYTHING,
    channel=st.sampled_from(["51", "51", "7"]) | ANYTHING,
    others=st.dictionaries(
        st.sampled_from(
            ["id", "at", "from", "to", "columns", "limit", "interval", "kind", "direction", "q"]
        ),
        ANYTHING,
        max_size=5,
    ),
)
def test_every_request_is_answered_with_data_or_an_error(
    server, busiest, path, day, channel, others
):
    parameters = {
        "id": busiest["id"],
        "day": day,
        "channel": channel,
        "at": "43200000000000",
    } | others
    answer = visiting.get(server, f"api/{path}", **parameters)
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 400:
        assert answer.json()["error"].rstrip().endswith((".", "?"))
