"""Peers whose schema is a file: the client, ``pregao ep`` and ``pregao exchange``."""

import asyncio
import os
import re
import signal
import struct
import subprocess
import sys
from decimal import Decimal

import pytest

from pregao.cli.ep import command
from pregao.entrypoint import Client, ClientSettings
from pregao.entrypoint.messages import read_schema
from pregao.errors import PregaoError, UsageError
from tests.entrypoint.raw_client import PETR4
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION
from tests.entrypoint.schema_files import write_schema
from tests.entrypoint.tcp_desk import TcpDesk
from tests.net.net_support import free_port
from tests.waiting import PATIENCE_S

OLD = (2, 5, "5.6.0")
"""The messages of 8.0.0 under the number of 8.3.3, as 5.6 has it."""


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    return write_schema(tmp_path_factory.mktemp("schema") / "old.xml", *OLD)


@pytest.fixture(scope="module")
def exchange(schema, tmp_path_factory):
    config = tmp_path_factory.mktemp("exchange") / "exchange.toml"
    config.write_text(
        f'control = 0\n[gateway]\nprimary = "127.0.0.1:{free_port()}"\n'
        f'backup = "127.0.0.1:{free_port()}"\n[feed]\nmode = "none"\n'
    )
    command = ["exchange", "--config", str(config), "--entrypoint-schema", str(schema)]
    with subprocess.Popen(
        [sys.executable, "-m", "pregao", *command], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as running:  # fmt: skip
        port = None
        for line in running.stderr:
            if found := re.search(r"gateways at 127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
            if line.strip() == "pregao: ready":
                break
        assert port is not None
        yield port
        running.send_signal(signal.SIGINT)
        try:
            assert running.wait(PATIENCE_S) == 0
        finally:
            running.kill()


def test_a_client_and_an_exchange_speak_a_schema_of_a_file(schema, exchange):
    async def work():
        own = ClientSettings(SESSION, FIRM, KEY)
        async with Client(own, [("127.0.0.1", exchange)], schema=schema) as client:
            assert (client.settings.version, client.schema.semantic_version) == (5, "5.6.0")
            requests = client.request_builder()
            report = await client.request(*requests.new("BUY", PETR4, 200, Decimal(12)))
            assert report.name == "ExecutionReport_New"
            # The block and the header of 8.0.0: the bundled version 5 has other ones.
            assert struct.unpack_from("<HHHH", report.data, 4) == (144, 200, 1, 5)
            assert report.message["businessHeader"]["possResend"] == "FALSE_VALUE"
            assert report.message["price"] == 12

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def test_ep_speaks_a_schema_of_a_file(schema, exchange, tmp_path):
    script = tmp_path / "script.txt"
    script.write_text(f"new BUY {PETR4} 300 12.5 as one\nexpect new one orderQty=300\n")
    done = subprocess.run(
        [sys.executable, "-m", "pregao", "ep", "run", str(script), "--schema", str(schema),
         "--gateway", f"127.0.0.1:{exchange}", "--session", str(SESSION + 1)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "all met" in done.stdout


async def nothing(_desk):
    raise AssertionError("there is no session")


def hold(address, monkeypatch, schema=None):
    monkeypatch.setattr(command, "_READY_TIMEOUT_S", 1.0)
    with pytest.raises(PregaoError) as error_info:
        command._hold(
            nothing, [address], SESSION, FIRM, KEY, "8.0.0", schema, None, 80, "TRADR", None
        )
    return str(error_info.value)


def test_ep_reports_what_could_not_be_decoded(monkeypatch):
    answer = bytes.fromhex("0c0050eb0000e70301000900")  # template 999 of version 9

    async def serve(_reader, writer):
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def work():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.to_thread(hold, f"127.0.0.1:{port}", monkeypatch)

    words = asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
    assert "template 999 is not known (schema 1, version 9)" in words
    assert "The client uses 8.0.0 (version 2)" in words
    assert "Is the exchange running?" not in words


def test_ep_reports_that_nothing_answers(monkeypatch):
    async def work():
        async with TcpDesk() as desk:
            return desk.port

    port = asyncio.run(work())
    words = hold(f"127.0.0.1:{port}", monkeypatch)
    assert f"127.0.0.1:{port}: " in words
    assert words.endswith("Is the exchange running? Start one with `pregao exchange`.")


@pytest.mark.parametrize(
    ("layout", "without", "words"),
    [
        ((2, 5, "5.6.0"), ("EstablishAck",), "has no message EstablishAck"),
        ((2, 5, "5.6.0"), ("ExecutionReport_New",), "has no message ExecutionReport_New"),
    ],
)
def test_a_file_that_sessions_cannot_be_held_with_is_refused(tmp_path, layout, without, words):
    path = write_schema(tmp_path / "bad.xml", *layout, without=without)
    with pytest.raises(UsageError, match=words):
        read_schema(path)


def test_a_file_of_another_protocol_is_refused(schema, tmp_path):
    path = tmp_path / "other.xml"
    path.write_text(schema.read_text().replace(' id="1"', ' id="2"', 1))
    with pytest.raises(UsageError, match="has schema id 2"):
        read_schema(path)
