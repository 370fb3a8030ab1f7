"""Display of books, instruments and reports in terminals and notebooks."""

import re
from decimal import Decimal

import pytest

import pregao
from pregao.book.levels import Level
from pregao.events import BookChanged, InstrumentChanged
from pregao.notebook import MAX_ROWS, Report, book_text, ladder_html, record_html, table_html

WIDTH = 160


def cells(html):
    return [re.sub("<[^>]+>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", html)]


@pytest.fixture(scope="module")
def event(day):
    found = pregao.follow(day, symbol="PETR3", kinds=BookChanged, depth=30)
    return [item for item in found if item.book.bids and item.book.asks][-1]


def test_a_book_of_a_lake_is_one_line_and_a_ladder(lake):
    book = lake.book("PETR3")
    assert repr(book) == (
        f"<PETR3 {book.date}: {book.state.name.lower()}: bid {book.bids[0].price} × "
        f"{book.bids[0].size:,}, ask {book.asks[0].price} × {book.asks[0].size:,}, "
        f"{len(book.bids)} and {len(book.asks)} levels>"
    )
    assert len(repr(book)) < WIDTH
    html = book._repr_html_()
    rows = re.findall("<tr>.*?</tr>", html)[1:]
    assert len(rows) == min(MAX_ROWS, max(len(book.bids), len(book.asks)))
    best = book.bids[0]
    assert cells(rows[0])[:3] == [str(best.orders), f"{best.size:,}", str(best.price)]


def test_a_book_of_messages_is_one_line_and_a_ladder(day):
    book = pregao.Book()
    assert repr(book) == "<Book None: empty: bid none, ask none, 0 and 0 levels>"
    for message in pregao.read(next(day.glob("*_Incremental_A.pcap")), symbol="PETR3").messages():
        book.apply(message)
        break
    assert len(repr(book)) < WIDTH
    assert f"<caption>{book.security_id}: " in book._repr_html_()


def test_the_book_of_an_event_has_decimal_prices(event):
    price = event.book.best_bid.price
    assert isinstance(price, Decimal)
    assert event.book.bids[0] == event.book.best_bid
    assert event.book.bid_levels[0].price == price * 10_000
    assert f"bid {price:.4f} × {event.book.best_bid.size:,}" in repr(event.book)
    assert len(repr(event.book)) < WIDTH
    assert f"{price:.4f}" in cells(event.book._repr_html_())


def test_an_instrument_shows_the_fields_of_its_definition(day):
    from pregao.feed.channel.instruments import ChannelInstrument

    item = next(pregao.follow(day, kinds=InstrumentChanged))
    assert item.symbol
    for message in pregao.read(day, symbol="PETR3").messages():
        if message.template.startswith("SecurityDefinition"):
            instrument = ChannelInstrument.from_values(message.values)
            break
    assert repr(instrument) == f"<PETR3 {instrument.security_id}, group {instrument.group.group}>"
    html = instrument._repr_html_()
    assert html.startswith("<table><caption>PETR3</caption>")
    assert message.values["isinNumber"] in cells(html)


def test_reports_are_dictionaries_that_show_tables(lake_report, day):
    lake, report = lake_report
    assert isinstance(report, Report)
    assert report == dict(report)
    info = pregao.read(day).info()
    for each in (report, info):
        assert len(repr(each)) < 3_000
        assert each._repr_html_().startswith("<table><caption>Report</caption>")
    assert f"{info['packets']:,}" in cells(info._repr_html_())
    audit = lake.audit()
    assert f">{audit.results['equal']:,}</td>" in audit._repr_html_()


def test_texts_are_escaped_and_lists_are_cut():
    assert table_html("<a>", ["<b>"], [["<script>"]]).count("<script>") == 0
    assert "&lt;script&gt;" in record_html("", {"name": {"inner": ["<script>"]}})
    assert "… 5 more" in record_html("", {"rows": list(range(MAX_ROWS + 5))})
    levels = [Level(None, 1, 1)] * (MAX_ROWS + 3)
    assert ladder_html("", levels, []).count("<td>none</td>") == MAX_ROWS
    assert book_text("x", levels, []) == f"<x: bid none × 1, ask none, {MAX_ROWS + 3} and 0 levels>"
    assert repr(Report(rows=[1, 2], name="x" * 1000)).startswith("Report({'rows': [2 entries], ")
    assert len(repr(Report(rows=[1, 2], name="x" * 1000))) < 400
