"""Captures of an exchange: connections that end are forgotten, and all their bytes are there."""

import errno
import re
import tracemalloc

import pytest

from pregao.capture import read_packets, segments
from pregao.capture.tcp import StreamData, StreamEnd, StreamGap, StreamStart, streams
from pregao.errors import UsageError
from pregao.exchange.host import captures as captures_module
from pregao.exchange.host.captures import ENTRY_FILE, captures_in
from pregao.safe_io import private_files
from tests.entrypoint.raw_peer import START, RawPeer
from tests.exchange.host_desk import Exchange, quiet_settings
from tests.waiting import until

LOCAL_ADDRESS = ("127.0.0.1", 7001)


class Connection:
    """A connection as the tap sees it."""

    def __init__(self, port, now):
        self.peer, self.local_address, self.opened_ns = ("127.0.0.1", port), LOCAL_ADDRESS, now


def events_of(folder):
    return list(streams(segments(read_packets(folder / ENTRY_FILE))))


def connections(captures, count, first=0):
    """Connections one after another over few ports; give what was sent each way."""
    peer = RawPeer()
    both = []
    for number in range(first, first + count):
        now = START + number * 1000
        each = Connection(40_000 + number % 50, now)
        received = peer.frame("Sequence", nextSeqNo=number + 1)
        sent = peer.frame("Sequence", nextSeqNo=number + 7) * (1 + number % 3)
        captures.opened(each)
        captures.received(each, received[:5], now + 1)
        captures.received(each, received[5:], now + 2)
        captures.sent(each, sent, now + 3)
        captures.closed(each, now + 4)
        both.append((received, sent))
    return both


def test_an_ended_connection_is_removed_and_its_bytes_are_complete(tmp_path):
    captures = captures_in(tmp_path / "captures")(quiet_settings())
    both = connections(captures, 300)
    assert captures.connections == 0
    tracemalloc.start()
    try:
        both += connections(captures, 50, 300)
        before, _ = tracemalloc.get_traced_memory()
        both += connections(captures, 1000, 350)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert captures.connections == 0
    # One connection's state was 30 kB; what was sent is kept here, and the writer's buffer.
    assert after - before < 2_000_000
    captures.close()
    events = events_of(tmp_path / "captures")
    assert not [each for each in events if isinstance(each, StreamGap)]
    assert {each.reason for each in events if isinstance(each, StreamEnd)} == {"fin"}
    streams_found = {}
    received, sent = [], []
    for event in events:
        if isinstance(event, StreamStart):
            assert event.from_syn
            streams_found[event.flow] = b""
        elif isinstance(event, StreamData):
            streams_found[event.flow] += event.data
        elif isinstance(event, StreamEnd):
            found = sent if event.flow.src_port == LOCAL_ADDRESS[1] else received
            found.append(streams_found[event.flow])
    assert list(zip(received, sent, strict=True)) == both


def test_what_ends_after_the_capture_was_closed_changes_nothing(tmp_path):
    captures = captures_in(tmp_path / "captures")(quiet_settings())
    each = Connection(40_000, START)
    captures.opened(each)
    captures.close()
    size = (tmp_path / "captures" / ENTRY_FILE).stat().st_size
    captures.closed(each, START + 5)
    assert captures.connections == 0
    assert (tmp_path / "captures" / ENTRY_FILE).stat().st_size == size


@pytest.mark.parametrize("end", ["client", "exchange"])
def test_an_exchange_forgets_its_connections(tmp_path, end):
    folder = tmp_path / "captures"
    with Exchange(quiet_settings(), capture=captures_in(folder)) as exchange:
        tap = exchange.server._tap
        for _ in range(20):
            exchange.connect().close()
        until(lambda: tap.connections == 0 and exchange.server.connections == 0, lambda: tap)
        client = exchange.trader()
        client.new(1)
        client.one("ExecutionReport_New")
        assert tap.connections == 1
        if end == "client":
            client.close()
            until(lambda: tap.connections == 0, lambda: tap)
    assert tap.connections == 0
    ends = [each for each in events_of(folder) if isinstance(each, StreamEnd)]
    assert len(ends) == 2 * 21
    assert {each.reason for each in ends} == {"fin"}


@pytest.mark.parametrize("fails", [1, 2, 4])
def test_a_file_that_cannot_be_created_is_a_usage_error_and_closes_the_others(
    tmp_path, monkeypatch, fails
):
    folder = tmp_path / "captures"
    files = []
    create, write = private_files.create, captures_module.PcapWriter

    def full(path, *given):
        if len(files) + 1 == fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        return create(path, *given)

    monkeypatch.setattr(private_files, "create", full)
    monkeypatch.setattr(
        captures_module, "PcapWriter", lambda file: [files.append(file), write(file)][1]
    )
    words = f"{folder}: cannot be used: No space left on device."
    with pytest.raises(UsageError, match=re.escape(words)):
        captures_in(folder)(quiet_settings(feed="unicast"))
    assert len(files) == fails - 1
    assert all(file.closed for file in files)


def test_only_the_owner_reads_a_capture(tmp_path):
    folder = tmp_path / "captures"
    captures = captures_in(folder)(quiet_settings(feed="unicast"))
    captures.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) > 3
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
