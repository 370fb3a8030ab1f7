"""TCP recovery of the legacy feed over sockets on loopback."""

from __future__ import annotations

import asyncio

import pytest

from pregao.clock import SECOND
from pregao.errors import NetworkError
from pregao.fix import SessionSettings
from pregao.legacy import Ended, Fault, Finished, MessageStore, Recovered, Wanted
from pregao.live.legacy_recovery import connect_recovery, recovery_server
from tests.legacy.writing import message
from tests.waiting import PATIENCE_S

HOST = "127.0.0.1"
CLIENT = SessionSettings("CUSTOMER", "BVMF", 10 * SECOND)
SERVER = SessionSettings("BVMF", "CUSTOMER", acceptor=True)


def store_of(last):
    store = MessageStore(["10"], most=None)
    for number in range(1, last + 1):
        store.add("10", number, message("News_143", number))
    return store


async def until_finished(connection):
    """The events up to the end of a request, or of the session."""
    found = []
    async for event in connection.events():
        found.append(event)
        if isinstance(event, (Finished, Ended)):
            return found
    return found


def test_messages_are_recovered_over_a_socket():
    async def run():
        async with recovery_server(HOST, 0, SERVER, store_of(3000)) as port:
            connection = await connect_recovery(HOST, port, CLIENT)
            await connection.ask(Wanted("10", 1, 2000))
            first = await until_finished(connection)
            await connection.ask(Wanted("10", 2999, 3005))
            second = await until_finished(connection)
            await connection.close()
            return first, second

    first, second = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert [event.number for event in first[:-1]] == list(range(1, 2001))
    assert all(isinstance(event, Recovered) for event in first[:-1])
    assert first[-1] == Finished(Wanted("10", 1, 2000), None)
    assert second[-1] == Finished(Wanted("10", 2999, 3005), Fault.NOT_AVAILABLE)


def test_a_gateway_that_goes_away_is_told():
    async def run():
        async def hang_up(reader, writer):
            await reader.read(10)
            writer.close()

        server = await asyncio.start_server(hang_up, HOST, 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            connection = await connect_recovery(HOST, port, CLIENT)
            await connection.ask(Wanted("10", 1, 5))
            found = await until_finished(connection)
            await connection.close()
            return found

    (event,) = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert event == Ended("the connection was closed")


def test_the_wrong_name_is_refused_with_a_reason():
    async def run():
        stranger = SessionSettings("STRANGER", "BVMF", 10 * SECOND)
        async with recovery_server(HOST, 0, SERVER, store_of(3)) as port:
            connection = await connect_recovery(HOST, port, stranger)
            found = await until_finished(connection)
            await connection.close()
            return found

    (event,) = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert isinstance(event, Ended)


def test_nobody_listens():
    async def run():
        async with recovery_server(HOST, 0, SERVER, store_of(1)) as port:
            pass
        await connect_recovery(HOST, port, CLIENT)

    with pytest.raises(NetworkError, match="cannot be reached"):
        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
