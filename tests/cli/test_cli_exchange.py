"""`pregao exchange` and `ctl` as a user types them."""

import contextlib
import re
from pathlib import Path

import pytest
import typer

from pregao.cli.exchange.ctl import ctl
from pregao.exchange.host.admin.control_requests import REQUESTS
from tests.exchange.host_desk import Exchange

REFERENCE = Path(__file__).parents[2] / "docs" / "exchange.md"
COMMANDS = typer.main.get_command(ctl).commands


@pytest.fixture(scope="module")
def port():
    with Exchange() as exchange:
        exchange.trader()
        yield exchange.server.control_port


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("phase", "all", "pre_open"), "all: PRE_OPEN"),
        (("phase", "all", "OPEN"), "all: OPEN"),
        (("halt", "PETR4"), "PETR4 halted"),
        (("resume", "PETR4"), "PETR4 follows its group"),
        (("forbid", "PETR3"), "PETR3 is forbidden"),
        (("auction", "VALE3", "--duration", "1h"), "VALE3 is in auction for 1h"),
        (
            (
                "trade",
                "PETR4",
                "36.5",
                "300",
                "--buyer",
                "85",
                "--seller",
                "127",
                "--at",
                "2026-05-21T15:30:00Z",
                "--kind",
                "block-book-trade",
                "--out-of-sequence",
            ),
            "trade 10 of 300 PETR4 at 36.5 entered",
        ),
        (
            ("amend-trade", "PETR4", "10", "--price", "36.6", "--quantity", "200"),
            "trade 10 of PETR4 amended",
        ),
        (("delete-side", "PETR4", "buy"), "BUY orders of PETR4 canceled"),
        (
            ("settlement", "DOLM26", "5012.5", "--kind", "updated", "--date", "2026-06-01"),
            "published",
        ),
        (("closing", "PETR4", "36.5", "--previous", "--last-trade", "2026-05-20"), "published"),
        (("open-interest", "DOLM26", "125000"), "published"),
        (("quantity-band", "PETR4", "--maximum", "1000000"), "set"),
        (("reference", "PETR4", "36.5"), "set"),
        (
            (
                "band",
                "PETR4",
                "--kind",
                "AUCTION_LIMITS",
                "--limits",
                "percentage",
                "--low",
                "-5",
                "--high",
                "5",
                "--midpoint",
                "last-traded-price",
            ),
            "set",
        ),
        (("news", "A headline", "--symbol", "PETR4"), "published"),
        (("band", "PETR4", "--low", "1", "--high", "99.5"), "set"),
        (
            ("protect", "7", "85", "123", "PETR4", "--fills", "5"),
            "account 123 of firm 85 protected",
        ),
        (
            ("protect", "8", "85", "123", "DOL", "--net", "9", "--stops"),
            "account 123 of firm 85 protected",
        ),
        (
            ("protect", "9", "85", "123", "PETR4=options/both", "VALE3", "--delta", "600.5"),
            "account 123 of firm 85 protected",
        ),
        (("unprotect", "7"), "protection 7 removed"),
        (("delta", "PETRR360", "--", "-0.45"), "set"),
        (("blacklist", "PETR4"), "PETR4 cannot be a leg of user-defined spreads"),
        (("blacklist", "PETR4", "--remove"), "PETR4 can be a leg of user-defined spreads"),
        (("pair", "DOLM26", "WDOM26"), "DOLM26 and WDOM26 paired"),
        (("reset", "51"), "channel 51 republished"),
        (("reset-book", "PETR4"), "book of PETR4 republished"),
        (("reset-stream", "51"), "stream of channel 51 restarted"),
        (("remove", "VALE3"), "VALE3 delisted"),
        (("end-day",), "trading day ended"),
        (("failover",), "the backup gateway is active"),
    ],
)
def test_market_operations(pregao, port, words, answer):
    done = pregao("exchange", "ctl", words[0], "--port", port, *words[1:])
    assert (done.code, done.out) == (0, f"{answer}\n")


def test_status_shows_phases_and_sessions(pregao, port):
    done = pregao("exchange", "ctl", "status", "--port", port)
    assert done.code == 0
    assert "100000001" in done.out
    assert "connections" in done.out
    assert '"sessions"' in pregao("exchange", "ctl", "status", "--json", "--port", port).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("halt", "PETR9"), "unknown instrument 'PETR9'; did you mean PETR4"),
        (("bust", "PETR4", "5"), "5"),
        (("protect", "9", "85", "123", "PETR4"), "requires at least one limit"),
        (("protect", "9", "85", "123", "PETR9", "--fills", "5"), "unknown instrument 'PETR9'"),
        (("unprotect", "99"), "market protection 99 does not exist"),
        (("pair", "PETR4", "PETR4"), "cannot be paired with itself"),
        (("phase", "all", "LUNCH"), "phase must be one of PRE_OPEN"),
        (("add", "nowhere.toml"), "Cannot read nowhere.toml"),
        (("day", "soon"), "date must be a date such as 2026-05-21"),
        (("trade", "PETR4", "1.00001", "5"), "trade: price must be a price from -10000000000"),
        (("trade", "PETR4", "1", "5", "--at", "noon"), "--at must be a time such as 2026-05-21T"),
        (("trade", "PETR4", "1", "5", "--kind", "x"), "kind must be one of MULTI_ASSET_TRADE"),
        (("amend-trade", "PETR4", "10"), "amend-trade: nothing to change"),
        (("delete-side", "PETR4", "up"), "delete-side: side must be one of BUY, SELL, was 'up'"),
        (("settlement", "DOLM26", "soon"), "settlement: price must be a price"),
        (("closing", "PETR4", "1", "--last-trade", "x"), "last_trade must be a date such as"),
        (("open-interest", "DOLM26", "--", "-1"), "open-interest: quantity must be an integer"),
        (("quantity-band", "DOLM26", "--maximum", "5"), "DOLM26 is a derivative"),
        (("band", "PETR4", "--limits", "miles"), "band: limits must be one of PRICE_UNIT, TICKS"),
        (("delta", "PETR4", "101"), "delta: delta must be a number from -100 to 100"),
        (("protect", "9", "85", "1", "PETR4=x", "--net", "1"), "counts must be one of INSTRUMENT"),
        (("protect", "9", "85", "1", "PETR4", "--delta", "x"), "--delta must be a number"),
        (("blacklist", "PETR9"), "unknown instrument 'PETR9'"),
        (("reset-stream", "1"), "no instrument is on channel 1"),
        (("forbid", "PETR9"), "unknown instrument 'PETR9'"),
        (("disconnect", "5"), "session 5 is not configured"),
    ],
)
def test_errors_are_one_line(pregao, port, words, message):
    done = pregao("exchange", "ctl", words[0], "--port", port, *words[1:])
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_a_missing_exchange_is_reported(pregao):
    import socket

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as held:
        port = held.getsockname()[1]
    done = pregao("exchange", "ctl", "status", "--port", port)
    assert done.code == 2
    assert "start one with `pregao exchange`" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "nowhere.toml"), "nowhere.toml: there is no such file"),
        (("--feed", "smoke"), "--feed must be multicast, unicast or none"),
        (("--duration", "soon"), "--duration"),
    ],
)
def test_errors_before_it_runs(pregao, words, message):
    done = pregao("exchange", *words)
    assert done.code == 2
    assert message in done.err


def documented():
    """The rows of the reference by command: its words, and the effect."""
    rows = {}
    for line in REFERENCE.read_text("utf-8").splitlines():
        found = re.fullmatch(r"\| (`[a-z].*?`) \| (.*) \|", line)
        if found is None:
            continue
        for words in re.findall(r"`([^`]+)`", found[1]):
            rows[words.split()[0]] = (words.split()[1:], found[2])
    return rows


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_every_command_argument_and_option(name):
    words, effect = documented()[name]
    arguments = []
    for each in COMMANDS[name].params:
        if isinstance(each, typer.core.TyperArgument):
            arguments.append(each.name)
        elif each.opts[-1] != "--port":
            assert f"`{each.opts[-1]}`" in effect
    assert len(words) == len(arguments)


def test_there_is_a_command_for_every_control_request():
    assert set(COMMANDS) == {*REQUESTS, "status"}
    assert set(documented()) >= set(COMMANDS)
