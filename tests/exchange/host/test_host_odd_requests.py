"""Odd requests of market operations: refused completely, without a trace in state or journal."""

import pytest

from pregao.errors import UsageError
from pregao.exchange.host.admin.control_requests import MAX_HEADLINE_BYTES, REQUESTS
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.journal.journal_file import RecordKind
from pregao.exchange.host.market_data import MarketData
from tests.entrypoint.raw_peer import MS, SESSION
from tests.exchange.host_desk import whole_state
from tests.exchange.host_floor import HostFloor
from tests.exchange.odd_requests import BASE, odd_requests

EVERY = 97
"""After this number of requests an order is served and the journal is replayed."""


def with_feed(floor):
    """Make a floor encode its publications, as a server does."""
    data = MarketData(floor.settings, floor.host.engine, floor.host.starts, floor.now)
    data.begin(floor.now)
    floor.host.take_units()
    floor.host.publish = data.stage
    return data


def served(floor, number):
    """The names of the answers to an order; the session is opened again if it was ended."""
    host, line, peer = floor.host, floor.lines[SESSION], floor.peers[SESSION]
    if not line.established:
        line = floor.lines[SESSION] = host.connect(host.active, floor.now)
        state = host.store.state(SESSION)
        ver = state.session_ver_id
        if host.active not in state.gateways:
            ver += not state.gateways
            host.receive(line, peer.negotiate(ver, now=floor.now), floor.now)
        expected = state.next_incoming
        host.receive(line, peer.establish(ver, expected, now=floor.now), floor.now)
        assert line.established
    line.take_output()
    floor.numbers[SESSION] = host.store.state(SESSION).next_incoming
    floor.request("new", SESSION, number, "BUY", 5, 100, 0)
    return [name for name, _ in floor.read_messages(SESSION)]


def replayed(floor):
    floor.host.commit()
    floor.journal.close()
    floor.journal = Journal(floor.folder)
    again = ExchangeHost(floor.settings, floor.journal)
    again.replay()
    return again


def test_every_command_has_a_case():
    assert set(BASE) == set(REQUESTS)


def test_odd_commands_neither_stop_the_exchange_nor_its_next_start(tmp_path):
    floor = HostFloor(tmp_path)
    data = with_feed(floor)
    refused = accepted = 0
    for number, request in enumerate(odd_requests(), 1):
        floor.now += MS
        before = whole_state(floor.host)
        pending = floor.journal.mark()
        try:
            floor.host.control(request, floor.now)
        except UsageError:
            refused += 1
            assert whole_state(floor.host) == before, request
            assert floor.journal.mark() == pending, request
        else:
            accepted += 1
        assert floor.host.faults.count == 0, request
        data.flush(floor.now)
        (answer,) = served(floor, number)
        assert answer in ("ExecutionReport_New", "ExecutionReport_Reject"), request
        if number % EVERY == 0:
            again = replayed(floor)
            assert whole_state(again) == whole_state(floor.host), request
            assert not again.faults.skipped_records
            floor.journal.close()
            floor.host._journal = floor.journal = Journal(floor.folder)
    assert refused > 1200
    assert accepted > 100
    again = replayed(floor)
    assert whole_state(again) == whole_state(floor.host)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"command": "disconnect", "session": "x"},
         "disconnect: session must be an integer from 1 to 4294967294, was 'x'"),
        ({"command": "phase", "phase": "OPEN", "session": "x"},
         "phase: session must be one of REGULAR, NON_REGULAR, was 'x'"),
        ({"command": "auction", "symbol": "PETR4", "until_ns": "soon"},
         "auction: until_ns must be an integer from 0 to 4133894400000000000, was 'soon'"),
        ({"command": "day", "date": "9999-12-31"},
         "day: date must be a date such as 2026-05-21, from 1990-01-01 to 2100-12-31, "
         "was '9999-12-31'"),
        ({"command": "band", "symbol": "PETR4", "high": 10**18},
         "band: high must be a price from -10000000000 to 10000000000 with at most four decimals, "
         "was 1000000000000000000"),
        ({"command": "news", "headline": "A" * 1401},
         f"news: headline must be a non-empty string of at most {MAX_HEADLINE_BYTES} bytes, "
         f"was '{'A' * 79}…"),
        ({"command": "auction", "symbol": "PETR4", "until_ns": 4133894400000000001},
         "auction: until_ns must be an integer from 0 to 4133894400000000000, "
         "was 4133894400000000001"),
        ({"command": "unprotect", "id": 0},
         "unprotect: id must be an integer from 1 to 4294967294, was 0"),
        ({"command": "halt", "symbol": "PETR4", "now": True},
         "halt: unknown field 'now'; allowed: symbol"),
        ({"command": "protect", "id": 1, "firm": 1, "account": 1, "watch": ["ã" * 33]},
         "protect: watch must be a list of 1 to 1000 non-empty strings of at most 64 bytes, "
         "was " + ("['" + "\\xe3" * 20)[:80] + "…"),
        ({"command": "protect", "id": 1, "firm": 1, "account": 1, "watch": ["\ud800"]},
         "protect: watch must be a list of 1 to 1000 non-empty strings of at most 64 bytes, "
         "was ['\\ud800']"),
        ({"command": "protect", "id": 1, "firm": 1, "account": 1, "watch": ["ã" * 32]},
         "protect: interval_ms is missing; it must be an integer from 1 to 86400000"),
        ({"command": "bust", "symbol": "PETR4"},
         "bust: trade is missing; it must be an integer from 1 to 4294967294"),
    ],
)  # fmt: skip
def test_a_refusal_names_command_field_value_and_what_is_allowed(tmp_path, request_, words):
    floor = HostFloor(tmp_path)
    with pytest.raises(UsageError) as refused:
        floor.host.control(request_, floor.now)
    assert str(refused.value) == words
    floor.end()


def test_a_journal_of_an_earlier_version_is_replayed(tmp_path):
    """Version 0.1 wrote the name of a command as ``do``, which a request may no longer have."""
    new, old = HostFloor(tmp_path / "new"), HostFloor(tmp_path / "old")
    with pytest.raises(UsageError, match="unknown command None: use one of"):
        new.host.control({"do": "halt", "symbol": "PETR4"}, new.now)
    before = whole_state(new.host)
    new.host.control({"command": "halt", "symbol": "PETR4"}, new.now)
    old.host.commit()
    old.journal.append(RecordKind.CONTROL, old.now, 0, b'{"do":"halt","symbol":"PETR4"}')
    again = old.again()
    assert not again.faults.skipped_records
    assert whole_state(again) == whole_state(new.again()) != before


def test_commands_that_an_earlier_version_kept_are_set_aside_and_named(tmp_path):
    floor = HostFloor(tmp_path)
    floor.host.commit()
    assert served(floor, 1) == ["ExecutionReport_New"]
    expected = whole_state(floor.host)
    for body in (b'{"do":"disconnect","session":"x"}', b'{"do":"day","date":"9999-12-31"}', b"["):
        floor.journal.append(RecordKind.CONTROL, floor.now, 0, body)
    again = floor.again()
    assert whole_state(again) == expected
    found = list(again.faults.skipped_records.values())
    assert [each.kind for each in found] == ["CONTROL"] * 3
    assert {each.file for each in found} == {"journal-000001"}
    assert "session must be an integer" in found[0].reason
    data = (tmp_path / found[0].file).read_bytes()
    assert b'"disconnect"' in data[found[0].offset :][:60]
