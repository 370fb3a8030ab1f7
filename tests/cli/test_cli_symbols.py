"""Symbols in any case, and suggestions for unknown ones, for all commands."""

import shutil
from datetime import date

import pytest

from tests.cli.test_cli_messages import day, sound_lake

WITH_LAKE = [
    ("book", "SYMBOL", "--json"),
    ("audit", "--symbol", "SYMBOL", "--json"),
    ("export", "ticks", "--symbol", "SYMBOL", "-o", "-"),
    ("export", "book", "--symbol", "SYMBOL", "-o", "-"),
    ("lake", "symbol", "SYMBOL", "--json"),
]


def named(command, symbol):
    return [symbol if part == "SYMBOL" else part for part in command]


@pytest.mark.parametrize("command", WITH_LAKE, ids=" ".join)
def test_any_case_will_do(pregao, command):
    first, second = (
        pregao(*named(command, symbol), "--lake", sound_lake()) for symbol in ("PETR4", "pEtr4")
    )
    assert (first.code, first.out) == (0, second.out), first.err + second.err
    assert "PETR4" in first.out or "100000010014" in first.out or "snapshots" in first.out


@pytest.mark.parametrize(
    "command", [*WITH_LAKE, ("books", "--symbol", "SYMBOL", "--engine", "local")], ids=" ".join
)
def test_similar_ones_are_named(pregao, command):
    result = pregao(*named(command, "petr5"), "--lake", sound_lake())
    assert result.code == 2
    assert result.err.endswith("Did you mean PETR4 or PETR3?\n")


def test_books_of_one_instrument_in_any_case(pregao, tmp_path):
    own = shutil.copytree(sound_lake(), tmp_path / "lake")  # other tests read it unchanged
    result = pregao("books", "--symbol", "petr4", "--lake", own, "--engine", "local")
    assert (result.code, "1 instruments" in result.err + result.out) == (0, True)


def test_captures(pregao):
    first, second = (
        pregao("decode", day(), "--symbol", symbol, "-n", 5) for symbol in ("PETR4", "petr4")
    )
    assert (first.code, first.out) == (0, second.out)
    done = pregao("decode", day(), "--symbol", "petr5")
    assert (done.code, "Did you mean PETR4 or PETR3?" in done.err) == (2, True)


def test_the_exchange_takes_any_case():
    from pregao.errors import UsageError
    from pregao.exchange.engine.engine import MatchingEngine
    from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
    from pregao.exchange.host.admin.commands import find_instrument

    engine = MatchingEngine(list(bundled_catalogue()), date(2026, 5, 21))
    assert find_instrument(engine, "petr4").symbol == "PETR4"
    with pytest.raises(UsageError, match=r"did you mean PETR"):
        find_instrument(engine, "petr44")


def test_a_subscription_takes_any_case():
    from pregao.live import Subscription

    wanted = Subscription(["petr4", "7"])
    assert [wanted.matches("PETR4", 1), wanted.matches("petr4", 1), wanted.matches(None, 7)] == [
        True
    ] * 3
    assert not wanted.matches("VALE3", 1)
    assert not wanted.matches(None, 1)
