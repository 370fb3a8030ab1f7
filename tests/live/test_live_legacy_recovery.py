"""TCP recovery of the legacy feed over sockets on loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from pregao.clock import SECOND
from pregao.errors import NetworkError
from pregao.fix.message import encode
from pregao.fix.session import FixSessionSettings
from pregao.legacy.recovery import (
    MessageStore,
    RecoveredMessage,
    RecoverySessionEnded,
    RequestFinished,
)
from pregao.legacy.recovery_messages import ApplRespError, MessageRange, request_fields
from pregao.live import legacy_recovery_transport
from pregao.live.legacy_recovery_transport import connect_recovery, recovery_server
from tests.legacy.writing import message
from tests.waiting import PATIENCE_S

HOST = "127.0.0.1"
CLIENT = FixSessionSettings("CUSTOMER", "BVMF", 10 * SECOND)
SERVER = FixSessionSettings("BVMF", "CUSTOMER", acceptor=True)


def store_of(last):
    store = MessageStore(["10"], max_messages=None)
    for number in range(1, last + 1):
        store.add("10", number, message("News_143", number))
    return store


async def until_finished(connection):
    """The events up to the end of a request, or of the session."""
    found = []
    async for event in connection.events():
        found.append(event)
        if isinstance(event, (RequestFinished, RecoverySessionEnded)):
            return found
    return found


def test_messages_are_recovered_over_a_socket():
    async def run():
        async with recovery_server(HOST, 0, SERVER, store_of(3000)) as port:
            connection = await connect_recovery(HOST, port, CLIENT)
            await connection.ask(MessageRange("10", 1, 2000))
            first = await until_finished(connection)
            await connection.ask(MessageRange("10", 2999, 3005))
            second = await until_finished(connection)
            await connection.close()
            return first, second

    first, second = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert [event.number for event in first[:-1]] == list(range(1, 2001))
    assert all(isinstance(event, RecoveredMessage) for event in first[:-1])
    assert first[-1] == RequestFinished(MessageRange("10", 1, 2000), None)
    assert second[-1] == RequestFinished(
        MessageRange("10", 2999, 3005), ApplRespError.NOT_AVAILABLE
    )


def test_a_lost_gateway_is_reported():
    async def run():
        async def hang_up(reader, writer):
            await reader.read(10)
            writer.close()

        server = await asyncio.start_server(hang_up, HOST, 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            connection = await connect_recovery(HOST, port, CLIENT)
            await connection.ask(MessageRange("10", 1, 5))
            found = await until_finished(connection)
            await connection.close()
            return found

    (event,) = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert event == RecoverySessionEnded("the connection was closed")


def test_the_wrong_name_is_refused_with_a_reason():
    async def run():
        stranger = FixSessionSettings("STRANGER", "BVMF", 10 * SECOND)
        async with recovery_server(HOST, 0, SERVER, store_of(3)) as port:
            connection = await connect_recovery(HOST, port, stranger)
            found = await until_finished(connection)
            await connection.close()
            return found

    (event,) = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert isinstance(event, RecoverySessionEnded)


def test_an_unreachable_server_is_a_network_error():
    async def run():
        async with recovery_server(HOST, 0, SERVER, store_of(1)) as port:
            pass
        await connect_recovery(HOST, port, CLIENT)

    with pytest.raises(NetworkError, match="cannot be reached"):
        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


LOGON = encode(
    [(35, "A"), (49, "CUSTOMER"), (56, "BVMF"), (34, 1), (52, "20260521-12:00:00.000"),
     (98, 0), (108, 10), (141, "Y")]
)  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "answered"),
    [
        (b"", b""),
        (LOGON[:20], b""),
        (LOGON + LOGON[:20], b"35=A"),
    ],
    ids=["nothing", "half a logon", "half a message after the logon"],
)
def test_a_connection_that_waits_for_its_peer_ends(begin, answered):
    async def run():
        async with recovery_server(HOST, 0, SERVER, store_of(1), idle_ns=SECOND // 5) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(begin)
            found = await read_to_the_end(reader)
            writer.close()
            # Another client is served as before.
            connection = await connect_recovery(HOST, port, CLIENT)
            await connection.ask(MessageRange("10", 1, 1))
            events = await until_finished(connection)
            await connection.close()
            return found, events[-1]

    found, last = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert answered in found
    assert bool(found) == bool(answered)
    assert last == RequestFinished(MessageRange("10", 1, 1), None)


async def read_to_the_end(reader):
    found = b""
    with suppress(ConnectionResetError):
        while piece := await reader.read(1 << 16):
            found += piece
    return found


def test_the_number_of_connections_is_limited(monkeypatch):
    monkeypatch.setattr(legacy_recovery_transport, "MAX_CONNECTIONS", 2)

    async def run():
        async with recovery_server(HOST, 0, SERVER, store_of(1)) as port:
            held = [await asyncio.open_connection(HOST, port) for _ in range(2)]
            reader, writer = await asyncio.open_connection(HOST, port)
            found = await read_to_the_end(reader)
            for _, each in (*held, (reader, writer)):
                each.close()
            return found

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == b""


def test_a_client_that_does_not_read_its_answers_is_disconnected(monkeypatch):
    monkeypatch.setattr(legacy_recovery_transport, "MAX_CONNECTIONS", 1)
    store = MessageStore(["10"])
    for number in range(1, 2001):
        store.add("10", number, bytes(500))
    requests = [LOGON]
    for number in range(2, 42):
        head = [(35, "BW"), (49, "CUSTOMER"), (56, "BVMF"), (34, number)]
        fields = request_fields(f"r{number}", [MessageRange("10", 1, 2000)])
        requests.append(encode([*head, (52, "20260521-12:00:00.000"), *fields]))

    async def served(port):
        """Whether another client is served: not before the first one is gone."""
        connection = await connect_recovery(HOST, port, CLIENT)
        with suppress(ConnectionError):
            await connection.ask(MessageRange("10", 1, 1))
        events = await until_finished(connection)
        await connection.close()
        return events[-1] == RequestFinished(MessageRange("10", 1, 1), None)

    async def run():
        async with recovery_server(HOST, 0, SERVER, store, idle_ns=SECOND // 5) as port:
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, (HOST, port))
                await loop.sock_sendall(client, b"".join(requests))
                tries = 0
                while not await served(port):
                    tries += 1
                    await asyncio.sleep(0.02)
            return tries

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) > 0
