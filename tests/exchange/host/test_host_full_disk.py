"""A full disk: the exchange ends with an error, and acknowledged nothing it has not journaled."""

import contextlib
import os

import pytest

from pregao.errors import UsageError
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.journal.journal_file import JournalRecord, RecordKind
from tests.exchange.host.test_host_restart import Process, free_ports
from tests.exchange.host_desk import Client, Exchange, quiet_settings
from tests.waiting import PATIENCE_S

RECORD = JournalRecord(RecordKind.REQUEST, 5, 7, b"some bytes")


@pytest.fixture
def full(monkeypatch):
    """After a number of bytes nothing more can be written, as on a full disk."""
    left = [10**9]
    real = os.write

    def write(file, data):
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        part = bytes(data[: left[0]])
        left[0] -= len(part)
        return real(file, part)

    monkeypatch.setattr(os, "write", write)
    return left


@pytest.mark.parametrize("capacity", [0, 1, 7, 29, 30, 31, 45])
def test_what_does_not_fit_is_not_there_and_what_did_is(tmp_path, full, capacity):
    journal = Journal(tmp_path)
    for _ in range(3):
        journal.append(*RECORD)
    journal.commit()
    for _ in range(2):
        journal.append(*RECORD)
    full[0] = capacity
    with pytest.raises(UsageError, match="cannot be written: No space left on device; the exch"):
        journal.commit()
    # Even if there is space again, nothing is appended after the lost part.
    full[0] = 10**9
    journal.append(*RECORD)
    with pytest.raises(UsageError, match="cannot be written"):
        journal.commit()
    journal.close()
    again = Journal(tmp_path)
    assert list(again.records()) == [RECORD] * 3
    assert again.torn == 0
    again.append(*RECORD)
    again.commit()
    again.close()


def test_a_new_file_that_cannot_be_begun_is_a_one_line_error_too(tmp_path, full):
    journal = Journal(tmp_path)
    journal.append(*RECORD)
    full[0] = 5
    with pytest.raises(UsageError, match="cannot be written: No space left"):
        journal.commit()
    journal.close()
    again = Journal(tmp_path)
    assert list(again.records()) == []
    again.close()


def test_a_torn_end_that_cannot_be_put_aside_is_a_one_line_error(tmp_path, full):
    journal = Journal(tmp_path)
    journal.append(*RECORD)
    journal.commit()
    journal.close()
    (path,) = journal.files()
    path.write_bytes(path.read_bytes() + b"torn")
    full[0] = 2
    again = Journal(tmp_path)
    with pytest.raises(UsageError, match="last 4 bytes are an incomplete write and cannot be set"):
        list(again.records())
    again.close()
    assert [each.name for each in tmp_path.glob("*.torn*")] == []
    full[0] = 10**9
    again = Journal(tmp_path)
    assert list(again.records()) == [RECORD]
    again.close()


def test_market_operations_get_no_success_for_what_is_not_journaled(tmp_path, full):
    exchange = Exchange(quiet_settings(), journal=tmp_path).__enter__()
    assert exchange.control(command="halt", symbol="PETR4") == {"done": "halt"}
    full[0] = 0
    answer = exchange.control(command="resume", symbol="PETR4")
    assert answer["error"].startswith("the command was not journaled and has no effect")
    with pytest.raises(UsageError, match="the journal cannot be written"):
        exchange.__exit__()
    full[0] = 10**9
    with Exchange(quiet_settings(), journal=tmp_path) as exchange:
        with pytest.raises(UsageError, match="already"):
            exchange.call(lambda host: host.control({"command": "resume", "symbol": "VALE3"}, 0))
        exchange.control(command="resume", symbol="PETR4")  # it is still halted


def test_the_command_ends_with_an_error_and_a_restart_has_all_acknowledged_requests(tmp_path):
    ports = free_ports(2)
    running = Process(tmp_path, ports, max_bytes=20_000)
    client = Client(ports[0])
    client.log_on()
    acknowledged, sent = [], 0
    with contextlib.suppress(OSError, EOFError):
        while sent < 2_000:
            for _ in range(10):
                sent += 1
                client.new(sent, quantity=100, price=10)
            acknowledged += [values["clOrdID"] for _, values in client.read_messages(10)]
    assert 0 < len(acknowledged) < sent
    words = running.process.stderr.read()
    assert running.process.wait(PATIENCE_S) == 2
    running.process.stderr.close()
    client.close()
    assert "Traceback" not in words
    assert "the journal cannot be written: File too large; the exchange stops" in words
    again = Process(tmp_path, ports)
    client = Client(ports[0])
    ack = client.establish(1, sent + 1)
    assert ack["lastIncomingSeqNo"] >= max(acknowledged)
    assert ack["nextSeqNo"] > len(acknowledged)
    again.kill()
    client.close()
