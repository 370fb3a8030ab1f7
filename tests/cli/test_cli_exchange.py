"""`pregao exchange` and `ctl` as a user types them."""

import contextlib

import pytest

from tests.exchange.host_desk import Exchange


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
        (("auction", "VALE3", "--duration", "1h"), "VALE3 is in auction for 1h"),
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
        (("unprotect", "7"), "protection 7 removed"),
        (("pair", "DOLM26", "WDOM26"), "DOLM26 and WDOM26 paired"),
        (("reset", "51"), "channel 51 republished"),
        (("remove", "VALE3"), "VALE3 delisted"),
        (("end-day",), "trading day ended"),
        (("failover",), "the backup gateway is active"),
    ],
)
def test_market_operations(pregao, port, words, answer):
    done = pregao("exchange", "ctl", *words, "--port", port)
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
        (("disconnect", "5"), "session 5 is not configured"),
    ],
)
def test_errors_are_one_line(pregao, port, words, message):
    done = pregao("exchange", "ctl", *words, "--port", port)
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
