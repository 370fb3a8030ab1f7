"""News assembled from its parts: in any order, doubled, missing, too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.sbe._from_wire import decode_text
from pregao.umdf.news import MAX_PENDING, NewsParts

SECOND = 10**9


def part(number, count, text="", **changes):
    values = {
        "newsID": None, "newsSource": "MARKET_SURVEILLANCE", "origTime": 5, "securityID": 1111,
        "languageCode": "pt", "partCount": count, "partNumber": number, "headline": "Leilão",
        "text": text, "uRLLink": "",
    }  # fmt: skip
    return values | changes


def test_a_single_part_is_complete_immediately():
    news = NewsParts().part(part(1, 1, "suspenso"), 0)
    assert (news.headline, news.text, news.security_id, news.parts) == (
        "Leilão", "suspenso", 1111, 1,
    )  # fmt: skip


@pytest.mark.parametrize("stated", [None, "", "en"])
def test_000_5_8_news_without_a_language_is_portuguese(stated):
    single = NewsParts().part(part(1, 1, "x", languageCode=stated), 0)
    assert single.language == (stated or "pt")
    collector = NewsParts()
    collector.part(part(2, 2, "b", languageCode=stated), 0)
    assert collector.part(part(1, 2, "a", languageCode=stated), 0).language == (stated or "pt")


@given(st.lists(st.text(max_size=8), min_size=2, max_size=9), st.randoms())
def test_000_5_8_parts_in_any_order_and_doubled_give_the_text_once(texts, draw):
    parts = [part(at, len(texts), text) for at, text in enumerate(texts, 1)]
    sent = parts[:-1] * 2  # the last one only once: it completes the piece
    draw.shuffle(sent)
    collector = NewsParts()
    assert [collector.part(each, 0) for each in sent] == [None] * len(sent)
    assert collector.part(parts[-1], 0).text == "".join(texts)
    assert len(collector) == collector.dropped == 0


@given(st.text(alphabet="aç€😀", min_size=2, max_size=30), st.data())
def test_000_5_8_a_character_may_be_cut_between_parts(text, data):
    raw = text.encode()
    at = data.draw(st.integers(1, len(raw) - 1))
    cut = [decode_text(each, "utf-8") for each in (raw[:at], raw[at:])]
    parts = [part(n, 2, each, totalTextLength=len(raw)) for n, each in enumerate(cut, 1)]
    collector = NewsParts()
    assert collector.part(parts[0], 0) is None
    assert collector.part(parts[1], 0).text == text
    assert collector.dropped == 0


@pytest.mark.parametrize("total", [None, 0, 8, 9, 10])
def test_000_5_8_an_item_of_one_part_is_whole_whatever_length_it_states(total):
    collector = NewsParts()
    assert collector.part(part(1, 1, "suspensão", totalTextLength=total), 0).text == "suspensão"
    assert collector.dropped == 0


def test_000_5_8_parts_of_another_total_length_are_dropped():
    collector = NewsParts()
    assert collector.part(part(1, 2, "leilão", totalTextLength=13), 0) is None
    assert collector.part(part(2, 2, " aberto", totalTextLength=13), 0) is None
    assert (len(collector), collector.dropped) == (0, 1)
    assert collector.part(part(1, 2, "leilão", totalTextLength=14), 0) is None
    assert collector.part(part(2, 2, " aberto", totalTextLength=14), 0).text == "leilão aberto"


@pytest.mark.parametrize(
    "change",
    [{"newsID": 2}, {"newsSource": "OTHER"}, {"origTime": 6}, {"securityID": 2222},
     {"languageCode": "en"}, {"partCount": 3}],
)  # fmt: skip
def test_parts_without_a_number_belong_together_by_source_time_instrument_and_count(change):
    collector = NewsParts()
    assert collector.part(part(1, 2, "a"), 0) is None
    assert collector.part(part(2, 2, "b") | change, 0) is None
    assert collector.part(part(2, 2, "c"), 0).text == "ac"


def test_parts_are_waited_for_no_longer_than_the_limit():
    collector = NewsParts(max_wait_ns=60 * SECOND)
    collector.part(part(1, 2, "a"), 0)
    assert collector.deadline_ns == 60 * SECOND
    assert collector.part(part(2, 2, "b"), 60 * SECOND) is None
    assert collector.dropped == 1
    assert collector.part(part(1, 2, "a"), 61 * SECOND).text == "ab"
    assert collector.deadline_ns is None


def test_no_piece_is_longer_than_the_limit_and_no_more_are_kept_than_that():
    collector = NewsParts(max_bytes=100)
    assert collector.part(part(1, 3, "x" * 90, headline=""), 0) is None
    assert collector.part(part(2, 3, "x" * 20, headline=""), 0) is None
    assert (len(collector), collector.dropped) == (0, 1)
    for number in range(2 * MAX_PENDING):
        collector.part(part(1, 2, "x", origTime=number), 0)
    assert len(collector) == MAX_PENDING
    assert collector.dropped == 1 + MAX_PENDING


def test_a_part_beyond_the_count_is_dropped():
    collector = NewsParts()
    assert collector.part(part(3, 2, "x"), 0) is None
    assert (len(collector), collector.dropped) == (0, 1)
