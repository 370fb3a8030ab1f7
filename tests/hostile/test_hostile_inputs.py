"""Hostile input on every surface: an error or a reply, nothing executed, the service continues.

The attacks are in `hostile_cases`; a new one is a line there.
"""

import contextlib
import itertools
import re
import resource
import shutil
import socket

import pytest

from pregao.api.lake import Lake
from pregao.errors import PregaoError, SchemaError
from pregao.exchange.host.admin.control_server import read_token, token_path
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.fast.xml import load_templates
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.channel import FastChannel
from pregao.net.http import HttpServer, Response
from pregao.umdf.streams import Stream
from pregao.web.lake_market import LakeMarket
from pregao.web.server import PageServer, lake_application
from tests.build_once import build_once
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import Exchange
from tests.exchange.host_floor import SETTINGS as FLOOR
from tests.exchange.host_floor import HostFloor
from tests.hostile import hostile_cases as cases
from tests.lake.days import SMALL, day
from tests.waiting import PATIENCE_S, until
from tests.web.visiting import get

NUMBERS = itertools.count(1)
"""Client order IDs of the orders that are entered after each attack on the gateway."""

MEMORY = 400 << 20
"""Maximum growth of the process during one case, in bytes."""


def each(table):
    return pytest.mark.parametrize("name", list(table))


@pytest.fixture(autouse=True)
def bounded(tmp_path, monkeypatch):
    """Work in a folder of the case, in which no attack may have made a file."""
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    assert grown < MEMORY
    assert not list(tmp_path.rglob(cases.CANARY))


def ended_well(result):
    """Check that a command ended with a documented exit code and printed only sentences."""
    assert result.code in (0, 1, 2)
    assert "Traceback" not in result.err
    assert all(line.startswith("pregao: ") for line in result.err.splitlines())
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.out + result.err)
    return result


@each(cases.CAPTURES)
def test_a_capture(pregao, tmp_path, name):
    content, says = cases.CAPTURES[name]
    file = tmp_path / "day.pcap"
    file.write_bytes(content)
    for command in (["info"], ["decode", "--format", "jsonl"]):
        result = ended_well(pregao(*command, file))
        assert re.search(says, result.err + result.out)


@each(cases.SCHEMAS)
def test_a_schema_file(pregao, tmp_path, name):
    content, says = cases.SCHEMAS[name]
    file = tmp_path / "schema.xml"
    file.write_bytes(content)
    result = ended_well(pregao("schema", "--schema", file))
    assert result.code == 2
    assert re.search(says, result.err)


@each(cases.TEMPLATES)
def test_a_template_file(tmp_path, name):
    content, says = cases.TEMPLATES[name]
    file = tmp_path / "templates.xml"
    file.write_bytes(content)
    with pytest.raises(SchemaError, match=says):
        load_templates(file)


@pytest.mark.parametrize(
    "command",
    [
        ["exchange", "--config"],
        ["live", "--config"],
        ["simulate", "-o", "out", "--profile"],
        ["simulate", "-o", "out", "--instruments-file"],
        ["simulate", "-o", "out", "--schedule-file"],
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
@each(cases.SETTINGS)
def test_a_settings_file(pregao, tmp_path, name, command):
    content, says = cases.SETTINGS[name]
    file = tmp_path / "settings.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = ended_well(pregao(*command, file))
    assert result.code == 2
    assert re.search(says, result.err)
    assert "settings.toml" in result.err


def _lake(folder):
    Lake(folder).ingest(day(**SMALL))


@each(cases.LAKES)
def test_a_lake(pregao, tmp_path, name):
    change, says = cases.LAKES[name]
    lake = tmp_path / "lake"
    shutil.copytree(build_once("hostile-lake", {}, _lake), lake)
    change(lake)
    result = ended_well(pregao("query", "SELECT sum(payload_size) FROM packets", "--lake", lake))
    assert result.code == 2
    assert re.search(says, result.err)
    assert result.out == ""


@each(cases.JOURNALS)
def test_a_journal(tmp_path, name):
    change, says = cases.JOURNALS[name]
    floor = HostFloor(tmp_path / "journal")
    for number in range(1, 20):
        floor.do(("new", SESSION, number, "BUY", 10, 100, 0))
    expected = floor.host.engine.market.exec_id
    floor.end()
    change(tmp_path / "journal")
    if says is not None:
        with pytest.raises(PregaoError, match=says):
            started(tmp_path / "journal")
    else:
        assert started(tmp_path / "journal").engine.market.exec_id == expected


def started(folder):
    """Start an exchange from a journal."""
    with contextlib.closing(Journal(folder)) as journal:
        host = ExchangeHost(FLOOR, journal)
        host.replay()
        return host


@pytest.fixture(scope="module")
def exchange():
    with Exchange() as running_exchange:
        yield running_exchange


def replied(port, data):
    """Send bytes to a port, and return its reply until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.settimeout(PATIENCE_S)
        try:
            answer = b""
            connection.sendall(data)
            if b"Connection: close" not in data:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                answer += piece
        except OSError:  # closed before everything was sent
            return b""
        return answer


@each(cases.CONTROL)
def test_a_control_command(exchange, name):
    line, says = cases.CONTROL[name]
    port = exchange.server.control_port
    assert "error" in replied(port, line).decode()
    token = b'{"token":"%s","command"' % read_token(token_path(port)).encode()
    assert re.search(says, replied(port, line.replace(b'{"command"', token)).decode())
    assert exchange.control(command="status")


@pytest.fixture(scope="module")
def trader(exchange):
    return exchange.trader()


@each(cases.FRAMES)
def test_bytes_at_the_gateway(exchange, trader, name):
    replied(exchange.server.addresses[1].port, cases.FRAMES[name])
    trader.new(next(NUMBERS))
    trader.one("ExecutionReport_New")
    until(lambda: exchange.server.connections == 1)


@pytest.fixture(scope="module")
def page():
    market = LakeMarket(str(build_once("hostile-lake", {}, _lake)))
    with PageServer(lake_application(market), 0) as served:
        yield served


@each(cases.REQUESTS)
def test_a_request_to_the_page(page, name):
    request, says = cases.REQUESTS[name]
    port = int(page.address.rstrip("/").rpartition(":")[2])
    answer = replied(port, request.replace(b"{host}", b"127.0.0.1:%d" % port))
    assert re.search(says, answer.decode("latin-1").partition("\r\n")[0])
    assert get(page, "api/about").status_code == 200


@each(cases.REQUESTS)
def test_a_request_to_the_metrics(name):
    request, says = cases.REQUESTS[name]
    server = HttpServer(0, {"/health": lambda: Response("well\n")})
    try:
        answer = replied(server.port, request.replace(b"{host}", b"127.0.0.1:%d" % server.port))
        assert re.search(says, answer.decode("latin-1").partition("\r\n")[0])
        healthy = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n"
        assert replied(server.port, healthy % server.port).endswith(b"well\n")
    finally:
        server.close()


@pytest.mark.parametrize("kind", [Channel, FastChannel], ids=["plain", "compiled"])
@each(cases.DATAGRAMS)
def test_a_datagram(kind, name):
    channel = kind(ChannelSettings(72, ("A", "B")))
    channel.start(1)
    for stream in Stream:
        for feed in ("A", "B"):
            channel.receive(stream, feed, cases.DATAGRAMS[name], 2)
    channel.tick(3)
    assert not list(channel.security_ids)
    assert channel.counters.failures == 0
    assert channel.counters.bad_packets + channel.counters.undecoded_messages > 0
