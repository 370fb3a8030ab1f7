"""Books at many moments of a day, replayed together: each is what one lookup gives."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import SECOND
from pregao.lake.books.book_at import open_books
from pregao.lake.books.build import BookOptions
from pregao.lake.books.catalog import FileCatalog
from tests.lake.book_days import built, simulate

DAYS = {
    "whole": {},
    "by position": {"version": 9},
    "losses": {"loss": "0.2"},
    "joined late": {"late_join": "0.4"},
}


@cache
def lake_of(day):
    folder = simulate(Path(mkdtemp(prefix="pregao-series-")), seconds=10, **DAYS[day])
    made = built(folder, options=BookOptions(interval_ns=3 * SECOND))
    sent = [row["sending_time_ns"] for row in made.rows("packets", stream="incremental")]
    return made.lake, min(sent), max(sent)


@cache
def books(day, symbol):
    lake, first, last = lake_of(day)
    return open_books(FileCatalog(lake), symbol), first, last


def comparable(moment):
    """The complete state at a time, in a comparable form."""
    book = moment.book
    columns = ("side", "order_id", "price", "size", "firm", "inserted", "implied")
    orders = [tuple(np.asarray(getattr(book, name)).tolist()) for name in columns]
    names = [name for name in type(moment).__slots__ if name not in ("book", "replayed")]
    return [getattr(moment, name) for name in names], book.state, orders


@pytest.mark.parametrize("symbol", ["PETR4", "VALE3"])
@pytest.mark.parametrize("day", DAYS)
@settings(max_examples=6, deadline=None)
@given(shares=st.lists(st.floats(-0.02, 1.05), min_size=1, max_size=8))
def test_each_moment_of_a_series_is_what_a_lookup_gives(day, symbol, shares):
    lookup, first, last = books(day, symbol)
    times = sorted(first + int(share * (last - first)) for share in shares)
    series = lookup.series(times)
    assert [moment.at_ns for moment in series] == times
    assert list(map(comparable, series)) == [comparable(lookup.at(time)) for time in times]
    # Independent of later data: read one by one, each up to its own time, they are the same.
    assert list(map(comparable, series)) == [
        comparable(lookup.exactly([time])[0]) for time in times
    ]


def test_a_series_of_one_replay_gives_the_last_moments():
    lookup, first, last = books("losses", "PETR4")
    times = np.linspace(first, last, 40).astype(np.int64).tolist()
    some = lookup.series(times, max_replays=1)
    assert 0 < len(some) < len(times)
    assert [moment.at_ns for moment in some] == times[-len(some) :]
