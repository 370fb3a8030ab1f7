"""The page in a real browser: what is drawn is what the lake says."""

from contextlib import suppress
from datetime import date
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Error as PlaywrightError

from pregao.clock import format_ns
from pregao.web.json_encoding import midnight_ns
from pregao.web.lake_market import LakeMarket
from pregao.web.server import PageServer, lake_application
from tests import waiting
from tests.waiting import PATIENCE_S
from tests.web.browser_support import browser_path, picture, settled, until
from tests.web.conftest import DAY
from tests.web.live_support import live_page

pytestmark = pytest.mark.browser
BASE = midnight_ns(date.fromisoformat(DAY))
CHECKS = Path(__file__).with_name("page_checks.js")
MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


@pytest.fixture(scope="module")
def chromium():
    path = browser_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page, with everything that went wrong on it and everything that it asked for."""

    def __init__(self, browser, address, **options):
        options.setdefault("viewport", {"width": 1440, "height": 900})
        self.context = browser.new_context(**options)
        self.context.add_init_script(path=CHECKS)
        self.page = self.context.new_page()
        self.errors, self.requested = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda line: self.errors.append(line.text) if line.type == "error" else None,
        )
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(address)

    def close(self):
        self.context.close()


@pytest.fixture
def opened(chromium, server):
    watched = []

    def opening(address=None, **options):
        watched.append(Watched(chromium, address or server.url, **options))
        return watched[-1]

    yield opening
    for one in watched:
        one.close()


def go(page, at):
    """Go to a time by typing it, to the nanosecond."""
    text = format_ns(BASE + at).split("T")[1].rstrip("Z")
    page.fill("#clock", text)
    page.press("#clock", "Enter")
    until(page, f"__pregao.drawn.at === {at}")
    return settled(page)


def shown_rows(drawn):
    """Content of the ladder, from the highest ask to the lowest bid."""
    names = ("side", "price", "size", "orders")
    return [tuple(row[name] for name in names) for row in levels_of(drawn)]


def levels_of(drawn):
    return [row for row in drawn["ladder"] if row["side"] != "spread"]


def rows_of(book, drawn):
    """Expected content for a book; the number of visible levels may differ."""
    asks, bids = (
        sum(1 for row in levels_of(drawn) if row["side"] == side) for side in ("ask", "bid")
    )
    assert asks > 3 or asks == len(book.asks)
    assert bids > 3 or bids == len(book.bids)
    rows = [("ask", level) for level in reversed(book.asks[:asks])]
    rows += [("bid", level) for level in book.bids[:bids]]
    return [
        (side, None if level.price is None else int(level.price * 10_000), level.size, level.orders)
        for side, level in rows
    ]


def test_plots_show_the_content_of_the_lake(opened, lake, busiest):
    watched = opened()
    page = watched.page
    drawn = settled(page)
    assert drawn["symbol"] == busiest["symbol"]
    about = page.evaluate("({begin: __pregao.page.about.begin, end: __pregao.page.about.end})")
    states = set()
    for at in np.linspace(about["begin"], about["end"], 7).astype(int).tolist():
        drawn = go(page, at)
        book = lake.book(busiest["symbol"], BASE + at)
        states.add(drawn["state"])
        assert drawn["state"] == book.state.name.lower()
        assert shown_rows(drawn) == rows_of(book, drawn)
        queues = {
            (side, int(price * 10_000)): [order.size for order in book.orders
                                          if order.side.name.lower() == side
                                          and order.price == price]
            for side, levels in (("bid", book.bids), ("ask", book.asks))
            for price in [level.price for level in levels if level.price is not None]
        }  # fmt: skip
        for row in levels_of(drawn):
            if row["price"] is not None and row["at"] < 12:
                assert row["queue"] == queues[row["side"], row["price"]][: len(row["queue"])]
        trades = lake.sql(
            "SELECT sending_time_ns FROM trades WHERE security_id = "
            f"{busiest['id']} AND sending_time_ns <= {BASE + at} ORDER BY 1 DESC LIMIT 500"
        ).to_pylist()
        assert [trade[0] + BASE for trade in drawn["tape"]] == [
            row["sending_time_ns"] for row in trades[: len(drawn["tape"])]
        ]
        assert len(drawn["tape"]) == len(trades) or len(drawn["tape"]) > 5
    assert "valid" in states
    assert watched.errors == []
    assert {url.split("/")[2] for url in watched.requested} == {page.url.split("/")[2]}


def test_a_replay_continues_and_stops_where_the_lake_agrees(opened, lake, busiest):
    page = opened().page
    settled(page)
    before = page.evaluate("__pregao.drawn.at")
    page.select_option("#speed", "10")
    page.click("#play")
    until(page, f"__pregao.drawn.at > {before} + 8e9")
    # The ladder is drawn in the same turn in which its book came.
    replayed = page.evaluate("({drawn: __pregao.drawn, at: __pregao.page.book.at})")
    assert replayed["drawn"]["playing"]
    book = lake.book(busiest["symbol"], BASE + replayed["at"])
    assert replayed["drawn"]["state"] == book.state.name.lower()
    assert shown_rows(replayed["drawn"]) == rows_of(book, replayed["drawn"])
    page.keyboard.press("Space")
    drawn = settled(page)
    assert not drawn["playing"]
    exact = lake.book(busiest["symbol"], BASE + drawn["at"])
    assert shown_rows(drawn) == rows_of(exact, drawn)


def test_the_keyboard_is_enough(opened, busiest):
    watched = opened()
    page = watched.page
    drawn = settled(page)
    page.keyboard.press("ArrowRight")
    until(page, f"__pregao.drawn.at === {drawn['at'] + 10**9}")
    page.keyboard.press("Alt+ArrowLeft")
    until(page, f"__pregao.drawn.at === {drawn['at'] + 10**9 - 10**6}")
    settled(page)
    page.keyboard.press(".")
    until(page, f"__pregao.drawn.at !== {drawn['at'] + 10**9 - 10**6}")
    settled(page)
    assert page.evaluate("__pregao.drawn.tape[0][0] === __pregao.drawn.at")
    page.keyboard.press("]")
    until(page, "__pregao.page.about.phases.some(([from]) => from === __pregao.drawn.at)")
    settled(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.evaluate("__pregao.page.chosen")
    second = page.evaluate("__pregao.page.book.sides[0]")
    assert chosen == {"side": "bid", "price": second["levels"][1][0]}
    listed = page.evaluate("[...document.querySelectorAll('#queue tbody tr')].length")
    assert listed == len(second["queues"][1])
    page.keyboard.press("Escape")
    assert page.evaluate("document.querySelector('#queue').hidden")
    page.keyboard.press("/")
    page.keyboard.type("vale")
    until(page, "document.querySelectorAll('#found [role=option]').length > 0")
    page.keyboard.press("Enter")
    until(page, "__pregao.drawn.symbol?.startsWith('VALE')")
    settled(page)
    for key, view in (("2", "auction"), ("3", "latency"), ("4", "health"), ("1", "market")):
        page.keyboard.press(key)
        until(page, f"document.body.dataset.view === '{view}' && __pregao.drawn.loading === 0")
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") != theme
    assert watched.errors == []


SIZES = {"wide": (1440, 900), "middle": (1000, 800), "phone": (390, 844)}


def drawn_texts(page, canvas):
    """Texts of the last drawing of a canvas, with the box of each."""
    return page.evaluate("(name) => __checks.texts[name] ?? []", canvas)


def overlapping(texts):
    """Pairs of texts of which one hides a part of the other."""
    return [
        (one["text"], other["text"])
        for index, one in enumerate(texts)
        for other in texts[:index]
        if abs(one["x"] - other["x"]) < (one["width"] + other["width"]) / 2
        and abs(one["y"] - other["y"]) < 9
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_page_of_any_size_is_whole_and_readable(opened, lake, busiest, size):
    width, height = SIZES[size]
    scheme = "light" if size == "middle" else "dark"
    watched = opened(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = watched.page
    drawn = settled(page)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    # The header has bid, ask and volume of the book.
    book = lake.book(busiest["symbol"], BASE + drawn["at"])
    assert page.inner_text("#symbol") == busiest["symbol"]
    assert page.inner_text("#bid") == f"{book.bids[0].price:.2f}"
    assert page.inner_text("#ask") == f"{book.asks[0].price:.2f}"
    assert page.get_attribute("#volume", "title") == f"volume {book.trade_volume:,}"
    assert page.inner_text("#zone") == "times in UTC"
    assert page.evaluate("__checks.cut()") == []
    # Axes have round values, and no text hides another one.
    axis = drawn["axis"]
    steps = set(np.diff([time for time, _ in axis["times"]]).tolist())
    assert len(axis["times"]) >= 2
    assert steps <= {each * 10**9 for each in (5, 10, 15, 20, 30, 60)}
    assert all(time % step == 0 for time, _ in axis["times"] for step in steps)
    assert all(text == format_ns(BASE + time)[11:19] for time, text in axis["times"])
    assert all(price % 100 == 0 for price in axis["prices"])
    assert len({round(each) for each in np.diff(axis["prices"]) if each}) <= 2  # one was left out
    assert [tag["price"] for tag in axis["tags"]] == [
        int(book.asks[0].price * 10_000), int(book.bids[0].price * 10_000),
    ]  # fmt: skip
    for canvas in ("heatmap", "depth", "ladder"):
        texts = drawn_texts(page, canvas)
        assert texts, canvas
        assert overlapping(texts) == [], canvas
    assert [each["text"] for each in drawn_texts(page, "ladder")].count("orders") == 2
    # A pointer shows full sizes.
    row = max(levels_of(drawn), key=lambda each: each["size"])
    y = next(each["y"] for each in drawn_texts(page, "ladder")
             if each["text"] == f"{row['price'] / 10_000:.2f}")  # fmt: skip
    page.hover("#ladder", position={"x": 60, "y": y})
    until(page, "!document.querySelector('#tip').hidden")
    assert page.inner_text("#tip") == (
        f"{row['side']} {row['price'] / 10_000:.2f}: {row['size']:,} in {row['orders']} orders"
    )
    page.mouse.move(0, 0)
    until(page, "document.querySelector('#tip').hidden")
    if size == "phone":
        picture(page, "phone-dark.png")
    for view in ("auction", "latency", "health", "market"):
        page.click(f"[data-view={view}]")
        until(page, "__pregao.drawn.loading === 0")
        assert page.evaluate("__checks.cut()") == [], view
        for _ in ("dark", "light"):
            assert page.evaluate("__checks.unreadable()") == [], view
            page.keyboard.press("t")
        assert page.evaluate("__checks.palette()") == []
    assert watched.errors == []


def test_times_without_data_are_reported(opened, busiest):
    watched = opened()
    page = watched.page
    before = settled(page)["at"]
    begin, end = page.evaluate("[__pregao.page.about.begin, __pregao.page.about.end]")
    for text in ("03:00", format_ns(BASE + end + 1).split("T")[1].rstrip("Z")):
        page.fill("#clock", text)
        page.press("#clock", "Enter")
        until(page, "!document.querySelector('#notice').hidden")
        notice = page.inner_text("#notice")
        assert notice.startswith(f"There is no data of {busiest['symbol']} at {text}")
        assert f"from {format_ns(BASE + begin)[11:].rstrip('Z')}" in notice
        assert f"to {format_ns(BASE + end)[11:].rstrip('Z')}." in notice
        assert page.evaluate("__pregao.drawn.at") == before
    go(page, end)
    assert page.is_hidden("#notice")
    page.keyboard.press("ArrowRight")
    until(page, "!document.querySelector('#notice').hidden")
    assert page.evaluate("__pregao.drawn.at") == end
    page.evaluate(f"location.hash = '#day={DAY}&symbol={busiest['symbol']}&at={end + 10**9}'")
    until(page, "!document.querySelector('#notice').hidden && __pregao.drawn.loading === 0")
    assert "There is no data" in page.inner_text("#notice")
    assert watched.errors == []


def test_bars_and_panels_show_no_future_and_say_why_they_are_empty(opened, market, busiest):
    watched = opened()
    page = watched.page
    settled(page)
    own = market.instrument(date.fromisoformat(DAY), busiest["channel"], int(busiest["id"]))
    sent = own.trades.sent - BASE
    interval = page.inner_text("#bar-interval [aria-pressed=true]")
    for at in (int(sent[len(sent) // 3]), int(sent[2 * len(sent) // 3])):
        go(page, at)
        assert page.evaluate("__pregao.drawn.bars") == own.bars(interval, at)
    page.select_option("#speed", "5")
    page.click("#play")
    shown = page.evaluate("__pregao.drawn.bars.length")
    until(page, f"__pregao.drawn.bars.length > {shown}")
    latest = page.evaluate("[__pregao.drawn.bars.at(-1)[0], __pregao.drawn.at]")
    assert latest[0] <= latest[1]
    page.click("#play")
    begin = page.evaluate("__pregao.page.about.begin")
    go(page, begin)
    until(page, "document.querySelector('#bars').closest('.panel').dataset.note !== undefined")
    note = page.locator(".panel.bars").get_attribute("data-note")
    assert note == "no trades up to this time"
    assert [each["text"] for each in drawn_texts(page, "tape")] == ["no trades up to this time"]
    assert watched.errors == []


def test_in_an_auction_the_heatmap_shows_prices_around_the_balance(opened, market, busiest):
    watched = opened()
    page = watched.page
    settled(page)
    own = market.instrument(date.fromisoformat(DAY), busiest["channel"], int(busiest["id"]))
    at = own.auctions[0]["end"] - 10**9
    balance = own.book(at)["auction"][2]
    drawn = go(page, at)
    assert [tag["price"] for tag in drawn["axis"]["tags"]] == [balance]
    low, high = page.evaluate("[__pregao.drawn.axis.low, __pregao.drawn.axis.high]")
    near = own.book(at)["auction"]
    inside = [[price for price in side[::2] if low <= price <= high] for side in near[:2]]
    assert low < balance < high
    assert min(map(len, inside)) >= 3
    page.click("[data-view=auction]")
    until(page, "__pregao.drawn.loading === 0 && !!__pregao.drawn.auction")
    # Price and imbalance have one time axis.
    assert page.evaluate("__pregao.drawn.auction.panes") == 2
    assert page.locator("#auction-price table tr").count() >= 3
    assert "buyers above" in page.inner_text("[data-of=auction] .legend")
    assert watched.errors == []


def entered(page, side, quantity, price):
    """Enter an order on the exchange's panel, and wait for the answer."""
    page.click("[data-view=exchange]")
    page.fill("[data-of=exchange] input[type=number] >> nth=0", str(quantity))
    page.fill("[data-of=exchange] input[inputmode=decimal]", price)
    page.click(f"[data-of=exchange] button:text-is('{side}')")
    log_text = "document.querySelector('.log').textContent"
    until(page, f"{log_text}.includes('{side.upper()}') && {log_text}.includes('{quantity}')")
    page.keyboard.press("Escape")


def test_orders_entered_on_the_page_are_drawn_when_the_feed_delivers_them(opened):
    with live_page() as (served, exchange, _):
        watched = opened(served.url)
        page = watched.page
        until(page, "!!window.__pregao && document.title.endsWith('· live')")
        found_for(page, "petr4")
        page.keyboard.press("Enter")
        until(page, "__pregao.drawn.symbol === 'PETR4' && !!__pregao.page.book")
        entered(page, "Buy", 300, "30.10")
        entered(page, "Sell", 200, "30.30")
        page.click("[data-view=market]")
        until(page, "__pregao.drawn.ladder.filter((row) => row.size > 0).length === 2")
        assert shown_rows(page.evaluate("__pregao.drawn")) == [
            ("ask", 303_000, 200, 1),
            ("bid", 301_000, 300, 1),
        ]
        entered(page, "Buy", 100, "30.30")
        page.click("[data-view=market]")
        until(page, "__pregao.drawn.bars.length === 1")
        assert page.evaluate("__pregao.drawn.bars[0].slice(1)") == [*[303_000] * 4, 100]
        exchange.control(command="halt", symbol="PETR4")
        until(page, "document.querySelector('#phase').textContent === 'pause'")
        page.click("[data-view=health]")
        until(page, "document.querySelectorAll('#health-packets tbody tr').length > 2")
        page.click("[data-view=latency]")
        until(page, "__pregao.drawn.spread.reduce((sum, [, many]) => sum + many, 0) > 3")
        assert watched.errors == []
        watched.close()


def test_operations_of_the_panel_reach_the_exchange_with_their_fields(opened):
    with live_page() as (served, exchange, _):
        watched = opened(served.url)
        page = watched.page
        until(page, "!!window.__pregao && document.title.endsWith('· live')")
        found_for(page, "petr4")
        page.keyboard.press("Enter")
        until(page, "__pregao.drawn.symbol === 'PETR4' && !!__pregao.page.book")
        page.click("[data-view=exchange]")
        host = "[data-of=exchange]"

        def filled(**values):
            for label, value in values.items():
                of = f"{host} label:text-is('{label.replace('_', ' ')}')"
                control = page.locator(
                    f"{of} select, {of} input, {of} + select, {of} + input"
                ).first
                if control.evaluate("each => each.tagName") == "SELECT":
                    control.select_option(value)
                else:
                    control.fill(value)

        def done(button, command):
            page.click(f"{host} button:text-is('{button}')")
            until(
                page,
                f"document.querySelector('.log').textContent.includes('{command} PETR4: done')",
            )

        filled(figure="DELTA", value="-0.45")
        done("Publish figure", "delta")
        filled(in_percent_of="LAST_TRADED_PRICE", low="-5", high="5")
        done("Set band", "band")
        filled(protection="3", firm="85", account="7", limit="delta", counts="OPTIONS")
        page.fill(f"{host} [aria-label=Maximum]", "600")
        done("Protect", "protect")
        done("Blacklist", "blacklist")
        done("Reset stream", "reset-stream")
        state = exchange.call(lambda host: host.engine.market)
        (protection,) = state.protections[85, 7]
        (reference,) = protection.settings.references
        assert protection.settings.delta == 6_000_000
        assert (reference.counts.name, reference.cancels.name) == ("OPTIONS", "BOTH")
        listing = state.listings[reference.security_id]
        ((kind, band),) = listing.bands.items()
        assert (kind.name, band.limit_type.name, band.low) == (
            "REJECTION_BAND", "PERCENTAGE", -50_000,
        )  # fmt: skip
        assert (state.deltas, state.no_legs) == (
            {reference.security_id: -4_500}, {reference.security_id},
        )  # fmt: skip
        assert watched.errors == []
        watched.close()


def found_for(page, words):
    """Search, and wait until what is listed answers these words and no earlier ones."""
    page.keyboard.press("/")
    page.keyboard.type(words)
    until(
        page,
        "(document.querySelector('#found [role=option]')?.textContent ?? '').toLowerCase()"
        f".startsWith('{words}')",
    )


def until_held(page, held, condition):
    """Wait until a request that is held back meets a condition; handlers run while we wait."""

    def met():
        page.wait_for_timeout(20)
        return any(condition(route) for route in held)

    waiting.until(met, lambda: [route.request.url for route in held])


def next_frames(page):
    """Wait until the page has drawn twice: it has then done what an event made it do."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def in_the_order_of_choice(page, first, second):
    """Choose two instruments; the first is answered when the second is on the page already."""
    held, ended = [], set()
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda request: ended.add(request.url))
    page.route(
        "**/api/instrument?*", lambda route: route.continue_() if held else held.append(route)
    )
    found_for(page, first)
    page.keyboard.press("Enter")
    until(page, "document.activeElement !== document.querySelector('#search')")
    until_held(page, held, lambda route: True)
    found_for(page, second)
    page.keyboard.press("Enter")
    until(page, f"__pregao.drawn.symbol?.startsWith('{second.upper()}')")
    chosen = page.evaluate("__pregao.drawn.symbol")
    with suppress(PlaywrightError):  # the page may have given the question up
        held[0].continue_()
    waiting.until(lambda: (next_frames(page), held[0].request.url in ended)[1])
    next_frames(page)
    assert page.evaluate("__pregao.drawn.symbol") == chosen
    assert page.inner_text("#symbol") == chosen


def test_a_late_answer_does_not_undo_a_later_choice(opened):
    watched = opened()
    settled(watched.page)
    in_the_order_of_choice(watched.page, "petr", "vale")
    settled(watched.page)
    assert watched.errors == []


def test_typing_on_after_enter_is_no_choice(opened):
    watched = opened()
    page = watched.page
    before = settled(page)["symbol"]
    assert not before.startswith("VALE")
    held, holding = [], []
    # Requests sent right after a route is set may still pass it: set it before the search.
    page.route(
        "**/api/instruments?*",
        lambda route: held.append(route) if holding else route.continue_(),
    )
    found_for(page, "vale")
    holding.append(True)
    page.keyboard.press("Enter")
    page.keyboard.type("3")
    # The page aborts the first request when it sends the second: it may never get here.
    until_held(page, held, lambda route: "q=vale3" in route.request.url)
    # The answer replaces what is listed.
    page.evaluate("for (const row of document.querySelector('#found').children) row.id = 'before'")
    page.unroute("**/api/instruments?*")
    for route in held:
        with suppress(PlaywrightError):  # the page has given the first one up
            route.continue_()
    until(page, "!document.querySelector('#before')")
    next_frames(page)
    assert page.input_value("#search") == "vale3"
    assert page.inner_text("#symbol") == before
    assert page.is_visible("#found [role=option]")
    assert watched.errors == []


def test_a_late_answer_does_not_undo_a_later_choice_on_the_live_page(opened):
    with live_page(panel=False) as (served, _, _):
        watched = opened(served.url)
        until(watched.page, "!!window.__pregao && document.title.endsWith('· live')")
        until(watched.page, "!!__pregao.page.about")  # the page's own choice
        in_the_order_of_choice(watched.page, "petr4", "vale3")
        assert watched.errors == []
        watched.close()


def test_the_token_leaves_the_address_and_no_script_sees_it(opened, server, tmp_path):
    first = opened()
    settled(first.page)
    assert server.token not in first.page.url
    assert first.page.evaluate("document.cookie") == ""
    assert [one["httpOnly"] for one in first.context.cookies()] == [True]
    assert [one["sameSite"] for one in first.context.cookies()] == ["Strict"]
    stranger = opened(server.address).page
    assert "pregao ui" in stranger.inner_text("body")
    # As `pregao ui` opens it: a visit that another site began brings no strict cookie.
    page = tmp_path / "open.html"
    page.write_text(f'<meta http-equiv="refresh" content="0; url={server.url}">')
    visitor = opened(page.as_uri()).page
    visitor.wait_for_url(
        lambda url: url.startswith(server.address) and server.token not in url,
        timeout=PATIENCE_S * 1000,
    )
    settled(visitor)
    assert server.token not in visitor.url


class Hostile(LakeMarket):
    """A lake whose texts are markup."""

    def search(self, day, words):
        found = super().search(day, "")
        for one in found["instruments"]:
            one |= {"symbol": MARKUP, "description": MARKUP, "group": MARKUP}
        return found

    def instrument(self, day, channel, security_id):
        made = super().instrument(day, channel, security_id)
        made.about |= {"symbol": MARKUP, "description": MARKUP, "group": MARKUP}
        for phase in made.about["phases"]:
            phase[2] = MARKUP
        return made

    def news(self, day):
        return [{"at": 0, "headline": MARKUP, "text": MARKUP, "symbol": MARKUP, "source": MARKUP}]


def test_no_text_of_a_capture_becomes_markup(opened, lake_path):
    with PageServer(lake_application(Hostile(lake_path)), 0) as served:
        watched = opened(served.url)
        page = watched.page
        drawn = settled(page)
        assert drawn["symbol"] == MARKUP
        page.click("#search")
        until(page, "document.querySelectorAll('#found [role=option]').length > 0")
        page.keyboard.press("Escape")
        page.click("[data-view=health]")
        until(page, "document.querySelectorAll('#health-news article').length === 1")
        assert page.inner_text("#health-news h3") == MARKUP
        assert (
            page.evaluate("document.querySelectorAll('main img, main script, #found img').length")
            == 0
        )
        assert page.evaluate("window.hacked") is None
        watched.close()


def linked(opened, server, **words):
    """The page that a link opens, once it has answered: its notice, and the instrument shown."""
    watched = opened(f"{server.url}#{urlencode(words)}")
    page = watched.page
    until(page, "!!window.__pregao && __pregao.page.day !== null && __pregao.drawn.loading === 0")
    until(page, "__pregao.page.about !== null || !document.querySelector('#notice').hidden")
    assert watched.errors == []
    return page


def test_a_link_opens_what_it_names_or_says_what_the_lake_does_not_have(opened, server, market):
    listed = market.search(date.fromisoformat(DAY), "")["instruments"]
    other = listed[-1]
    page = linked(opened, server, day=DAY, symbol=other["symbol"], id=other["id"])
    assert settled(page)["symbol"] == other["symbol"]
    page = linked(opened, server, symbol=other["symbol"])
    assert settled(page)["symbol"] == other["symbol"]
    for words, notice in (
        ({"day": "2026-05-22", "symbol": other["symbol"]}, "names 2026-05-22, of which this lake"),
        ({"day": DAY, "symbol": "NOBODY3"}, f"names NOBODY3, which has no book on {DAY}"),
        ({"day": DAY, "symbol": other["symbol"], "id": "7"}, f"{other['symbol']}, ID 7, which"),
    ):
        page = linked(opened, server, **words)
        assert notice in page.inner_text("#notice")
        assert page.evaluate("__pregao.page.about") is None
        assert page.inner_text("#symbol") == "–"
    # The next choice is shown, and a link typed into the address bar is followed.
    page.evaluate(f"location.hash = '#day={DAY}&symbol={other['symbol']}'")
    until(page, f"__pregao.drawn.symbol === '{other['symbol']}'")
    assert page.is_hidden("#notice")


def test_a_lost_server_is_reported(opened, market):
    with PageServer(lake_application(market), 0) as served:
        page = opened(served.url).page
        settled(page)
    page.keyboard.press("ArrowRight")
    until(page, "!document.querySelector('#notice').hidden")
    assert "pregao ui" in page.inner_text("#notice")


def test_pictures_of_the_views(opened, busiest):
    """The pictures of the README, where they are wanted; and that every view draws something."""
    watched = opened(color_scheme="dark")
    page = watched.page
    settled(page)
    before = page.evaluate("__pregao.drawn.at")
    page.select_option("#speed", "10")
    page.click("#play")
    until(page, f"__pregao.drawn.at > {before} + 8e9")
    page.click("#play")
    settled(page)
    assert page.evaluate("__pregao.drawn.heatmap") > 10
    picture(page, "page.png")
    for view in ("auction", "latency", "health"):
        page.click(f"[data-view={view}]")
        until(page, "__pregao.drawn.loading === 0")
        assert page.evaluate(f"!document.querySelector('[data-of={view}]').hidden")
        picture(page, f"page-{view}.png")
    assert watched.errors == []
