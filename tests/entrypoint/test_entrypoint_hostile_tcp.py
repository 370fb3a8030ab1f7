"""The asyncio client against a scripted gateway on loopback that sends anything."""

import asyncio
import random
from contextlib import suppress

import pytest

from pregao.entrypoint import (
    Client,
    ClientSettings,
    ConnectionEnded,
    MessageReceived,
    ReconnectPolicy,
    RetransmissionRefused,
    SessionEstablished,
)
from tests.entrypoint.raw_layouts import frame
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION, RawPeer
from tests.entrypoint.scripted_gateway import report_values
from tests.waiting import PATIENCE_S

QUICK = ReconnectPolicy(first_s=0.001, max_delay_s=0.01, handshake_s=0.2)


class Gateway:
    """Answers each connection with the next of its scripts, the last one again and again."""

    def __init__(self, *scripts):
        self.scripts = scripts
        self.peer = RawPeer()
        self.connections = 0
        self.requests = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self.server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await script(self, reader, writer)
        writer.close()

    async def read_message(self, reader):
        """The next message of the client."""
        start = await reader.readexactly(4)
        rest = await reader.readexactly(int.from_bytes(start[:2], "little") - 4)
        ((name, values),) = self.peer.read(start + rest)
        self.requests += name == "RetransmitRequest"
        return name, values

    def common(self, values):
        return {
            "sessionID": SESSION, "sessionVerID": values["sessionVerID"],
            "requestTimestamp": values["timestamp"],
        }  # fmt: skip

    async def establish(self, reader, writer, next_number=1, keep_alive=60_000):
        """Take whatever the client begins with, up to its established session."""
        while True:
            name, values = await self.read_message(reader)
            common = self.common(values)
            if name == "Negotiate":
                writer.write(self.peer.frame("NegotiateResponse", **common, enteringFirm=FIRM))
            else:
                break
        writer.write(self.peer.frame(
            "EstablishAck", **common, keepAliveInterval=keep_alive, nextSeqNo=next_number,
            lastIncomingSeqNo=values["nextSeqNo"] - 1,
        ))  # fmt: skip

    def report(self, number):
        return self.peer.frame("ExecutionReport_New", **report_values(2, number))


async def good(gateway, reader, writer):
    """Establish, send three reports, stay."""
    await gateway.establish(reader, writer)
    writer.write(b"".join(gateway.report(number) for number in (1, 2, 3)))
    while True:
        await gateway.read_message(reader)


def hold(gateway, work, reconnecting=QUICK, kind=Client, **settings):
    chosen = ClientSettings(SESSION, FIRM, KEY, **({"keep_alive_ms": 60_000} | settings))

    async def run():
        async with gateway:
            client = kind(chosen, [gateway.address], reconnecting=reconnecting)
            events = client.events()
            client.start()
            try:
                return await work(client, events)
            finally:
                await client.close(timeout_s=0.05)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


async def until(events, wanted):
    """The events up to the first that is wanted."""
    found = []
    async for event in events:
        found.append(event)
        if wanted(event):
            return found
    raise AssertionError(found)


def test_retransmissions_that_deliver_nothing_end_after_some_requests():
    async def empty(gateway, reader, writer):
        await gateway.establish(reader, writer)
        writer.write(gateway.report(4))
        while True:
            name, values = await gateway.read_message(reader)
            if name == "RetransmitRequest":
                values = {"sessionID": SESSION, "requestTimestamp": values["timestamp"],
                          "nextSeqNo": values["fromSeqNo"], "count": values["count"]}  # fmt: skip
                granted = gateway.peer.frame("Retransmission", **values)
                writer.write((granted + gateway.peer.sequence(5)) * 1_000)

    async def work(_client, events):
        return await until(events, lambda event: isinstance(event, MessageReceived))

    gateway = Gateway(empty)
    found = hold(gateway, work, retransmission_attempts=3)
    refused = [each for each in found if isinstance(each, RetransmissionRefused)]
    assert [(each.code, each.first, each.count) for each in refused] == [("NOT_DELIVERED", 1, 3)]
    assert found[-1].number == 4
    assert gateway.requests == 3
    assert gateway.connections == 1


def test_a_gateway_that_ends_every_session_immediately_is_tried_less_and_less_often():
    attempts = []

    class Counting(Client):
        async def _pause(self, attempt):
            attempts.append(attempt)

    async def ending(gateway, reader, writer):
        await gateway.establish(reader, writer)
        writer.write(gateway.peer.terminate() * 100)
        while True:
            await gateway.read_message(reader)

    async def work(_client, events):
        for _ in range(6):
            await until(events, lambda event: isinstance(event, ConnectionEnded))

    gateway = Gateway(ending)
    hold(gateway, work, ReconnectPolicy(max_delay_s=PATIENCE_S), Counting)
    assert attempts[:5] == [0, 1, 2, 3, 4]


def noise(seed):
    """Whatever bytes, frames and halves of frames, before or after the handshake."""

    async def script(gateway, reader, writer):
        dice = random.Random(seed)
        if dice.random() < 0.5:
            await gateway.establish(reader, writer, dice.choice([0, 1, 5, 2**32 - 1]), 50)
        for _ in range(dice.randrange(1, 40)):
            # Without the rejects: one of an unknown code is the end of a session.
            template = dice.choice([1, 2, 5, 7, 8, 9, 13, 14, 200, 203, 204, 206, 999])
            body = dice.randbytes(dice.randrange(200))
            writer.write(dice.choice([
                frame(template, dice.randrange(200), body), dice.randbytes(30),
                gateway.peer.sequence(dice.randrange(2**32)),
                gateway.report(dice.randrange(2**32)),
                gateway.report(1)[: dice.randrange(1, 100)],
            ]))  # fmt: skip
        await writer.drain()
        if dice.random() < 0.3:  # silence
            await reader.read()

    return script


@pytest.mark.parametrize("seed", range(8))
def test_after_any_noise_a_good_gateway_gets_its_session_and_no_report_is_lost(seed):
    started = 0

    async def serve(gateway, reader, writer):
        nonlocal started
        started += 1
        await good(gateway, reader, writer)

    async def work(client, events):
        while True:
            await until(events, lambda event: isinstance(event, SessionEstablished))
            if started:
                found = await until(
                    events, lambda e: isinstance(e, MessageReceived) and e.number == 3
                )
                break
        assert client.established
        return [each.number for each in found if isinstance(each, MessageReceived)]

    scripts = [noise(100 * seed + each) for each in range(12)]
    assert hold(Gateway(*scripts, serve), work) == [1, 2, 3]


def test_a_silent_gateway_is_left():
    async def silent(_gateway, reader, _writer):
        await reader.read()

    async def work(client, events):
        await until(events, lambda event: isinstance(event, SessionEstablished))
        assert client.established

    gateway = Gateway(silent, silent, good)
    hold(gateway, work)
    assert gateway.connections == 3
