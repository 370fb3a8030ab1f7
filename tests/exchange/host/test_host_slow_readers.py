"""Clients that stop reading: all that waits for them counts, whatever it waits for."""

import asyncio

import pytest

from pregao.exchange.host.gateway.tcp import GatewayListener, GatewayTransport
from pregao.exchange.host.host import PRIMARY
from tests.entrypoint.raw_peer import MS, SESSION
from tests.exchange.host_floor import HostFloor

LIMIT = 100_000
REPORTS = 200


class StuckTransport:
    """A connection whose peer reads nothing."""

    def __init__(self):
        self.unread = 0
        self.aborted = False

    def set_write_buffer_limits(self, high):
        self.high = high

    def get_extra_info(self, _name):
        return ("127.0.0.1", 1)

    def write(self, data):
        self.unread += len(data)

    def get_write_buffer_size(self):
        return self.unread

    def is_closing(self):
        return self.aborted

    def close(self):
        self.aborted = True

    abort = close


def stuck_line(floor):
    """A line to the exchange over which a session is established."""
    gate = GatewayListener(floor.host, PRIMARY, lambda: floor.now, {}, lambda: None, _raise, LIMIT)
    line, transport = GatewayTransport(gate), StuckTransport()
    line.connection_made(transport)
    peer = floor.peers[SESSION]
    floor.host.receive(
        line.connection, peer.establish(1, floor.numbers[SESSION], now=floor.now), floor.now
    )
    assert line.connection.established
    floor.lines[SESSION] = line.connection
    return line, transport


def _raise(error):
    raise error


def write_reports(floor, line, transport, count, number):
    """Write reports to a client; return the backlog when it was cut off."""
    for each in range(count):
        floor.now += MS
        floor.request("new", SESSION, number + each, "BUY", 5, 100, 0)
        line.flush()
        if transport.aborted:
            return transport.unread + line.connection.waiting_bytes
    return None


async def _unread(floor, *, retransmits):
    for number in range(REPORTS):
        floor.request("new", SESSION, 1 + number, "BUY", 5, 100, 0)
    floor.host.lost(floor.lines[SESSION], floor.now)
    line, transport = stuck_line(floor)
    line.flush()
    line.pause_writing()
    if retransmits:
        request = floor.peers[SESSION].retransmit(1, REPORTS, now=floor.now)
        floor.host.receive(line.connection, request, floor.now)
        line.flush()
        assert line.connection.unfinished
    written = transport.unread
    found = write_reports(floor, line, transport, 2_000, 1_000)
    if retransmits:
        assert transport.unread == written  # live reports wait for the retransmission
    assert line.too_slow
    line._timer.cancel()
    return found


@pytest.mark.parametrize("retransmits", [False, True])
def test_a_client_that_does_not_read_is_cut_off_at_the_limit(tmp_path, retransmits):
    floor = HostFloor(tmp_path)
    found = asyncio.run(_unread(floor, retransmits=retransmits))
    assert LIMIT < found < LIMIT + 1_000
    floor.end()


def test_a_client_that_reads_is_not_cut_off(tmp_path):
    async def reading(floor):
        floor.host.lost(floor.lines[SESSION], floor.now)
        line, transport = stuck_line(floor)
        for number in range(2_000):
            floor.request("new", SESSION, 1 + number, "BUY", 5, 100, 0)
            line.flush()
            transport.unread = 0
        line._timer.cancel()
        return transport.aborted

    floor = HostFloor(tmp_path)
    assert not asyncio.run(reading(floor))
    floor.end()
