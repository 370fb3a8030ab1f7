"""`pregao.follow` checks its arguments."""

import pytest

import pregao
from pregao.errors import UsageError
from pregao.events import BookChanged, TradeDone


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": "TradeDone"}, r"^kinds must be event types .*, was 'TradeDone'\. Did you mean"),
        ({"kinds": (TradeDone, int)}, "^kinds must be event types .*, was <class 'int'>"),
        ({"kinds": ()}, "^kinds selects no event"),
        ({"symbol": 5}, "^symbol must be a symbol such as 'PETR4', or several, was 5"),
        ({"symbol": ""}, "^symbol must be a symbol .*, was ''"),
        ({"symbol": ["PETR3", None]}, "^symbol must be a symbol .*, was .'PETR3', None."),
        ({"symbol": []}, r"^symbol must be a symbol .*, was \[\]"),
        ({"depth": -1}, "^depth must be a number of levels, 0 or more, was -1"),
        ({"depth": "5"}, "^depth must be a number of levels, 0 or more, was '5'"),
    ],
)
def test_an_invalid_argument_is_refused_at_once(day, arguments, message):
    with pytest.raises(UsageError, match=message):
        pregao.follow(day, **arguments)


def test_one_kind_or_several_select_events(day):
    trades = list(pregao.follow(day, kinds=TradeDone))
    assert trades
    assert {type(item.event) for item in trades} == {TradeDone}
    both = [item.event for item in pregao.follow(day, kinds=[TradeDone, BookChanged])]
    assert {type(event) for event in both} == {TradeDone, BookChanged}
    assert [event for event in both if isinstance(event, TradeDone)] == [
        item.event for item in trades
    ]


def test_an_unknown_symbol_is_an_error_at_the_end(day):
    with pytest.raises(UsageError, match=r"symbol 'PETR9' is not in the captures\. .*PETR3"):
        list(pregao.follow(day, symbol=["petr3", "PETR9"]))
    (number,) = {
        item.event.security_id for item in pregao.follow(day, symbol="petr3", kinds=TradeDone)
    }
    assert list(pregao.follow(day, symbol=str(number), kinds=TradeDone))
