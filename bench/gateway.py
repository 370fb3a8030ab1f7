"""The gateway: orders over TCP through journal and engine to reports, in a separate process."""

from __future__ import annotations

import gc
import json
import random
import select
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Row
from pregao.clock import MILLISECOND, SECOND
from pregao.entrypoint import framed
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.host.host import PRIMARY, ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.settings import ExchangeSettings
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled

SECTION = "gateway"
SESSION, FIRM, KEY = 100_000_001, 85, "123456789ABC"
SESSIONS = 500
VERSION = 2
ORDERS = 120_000
REPLAYED = 1_000_000
PACED_RATE = 2_000
PACED_SECONDS = 8
_CODEC = SchemaCodec(bundled("entrypoint", VERSION))
_LAST = 301  # SecurityDefinitionResponse, the response to the last request of a run


def run() -> Iterator[Row]:
    with Exchange("none") as exchange:
        rate = max(throughput(exchange) for _ in range(2))
    yield Row(SECTION, "one session, reports, journal synced", rate / 1e3, "k orders/s", "≥ 40")
    with Exchange("multicast") as exchange:
        rate = max(throughput(exchange) for _ in range(2))
    yield Row(SECTION, "the same with market data published", rate / 1e3, "k orders/s", "≥ 25")
    with Exchange("none") as exchange:
        times = latencies(exchange)
    what = f"{PACED_RATE} orders/s, from the intended time of sending to the report"
    for name, part, target in (
        ("p50", 0.5, "≤ 500"), ("p90", 0.9, ""), ("p99", 0.99, "≤ 2000"), ("p99.9", 0.999, ""),
    ):  # fmt: skip
        value = times[int(part * (len(times) - 1))] / 1e3
        yield Row(SECTION, f"{what}, {name}", value, "µs", target)
    yield Row(SECTION, f"{what}, longest", times[-1] / 1e3, "µs")
    with Exchange("none", SESSIONS) as exchange:
        yield Row(SECTION, f"{SESSIONS} sessions, reports, journal", many(exchange) / 1e3,
                  "k orders/s")  # fmt: skip
    seconds = replay()
    yield Row(SECTION, f"replay of {REPLAYED:,} journaled orders", seconds, "s", "≤ 20")


class Exchange:
    """`pregao exchange` in its own process."""

    def __init__(self, feed: str, sessions: int = 4) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.port = free_port()
        rows = "".join(
            f'[[session]]\nid = {SESSION + n}\nfirm = {FIRM}\naccess_key = "{KEY}"\n'
            for n in range(sessions)
        )
        (folder / "exchange.toml").write_text(
            f'control = 0\n[gateway]\nprimary = "127.0.0.1:{self.port}"\n'
            f'backup = "127.0.0.1:{free_port()}"\n[feed]\nmode = "{feed}"\n{rows}'
        )
        options = ["--config", str(folder / "exchange.toml"), "--journal", str(folder / "journal")]
        code = "from pregao.cli.main import run; run()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, "exchange", *options], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "ready" in line:
                break
        self.version = 0

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._folder.cleanup()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


class Client:
    """An established session on a socket."""

    def __init__(self, exchange: Exchange, session: int = SESSION) -> None:
        self.session = session
        self.socket = socket.create_connection(("127.0.0.1", exchange.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secret = {"auth_type": "basic", "username": str(session), "access_key": KEY}
        now = time.time_ns()
        common = {"sessionID": session, "sessionVerID": 1, "timestamp": now}
        common["credentials"] = json.dumps(secret)  # type: ignore[assignment]
        self._send("Negotiate", **common, enteringFirm=FIRM)
        response = self._receive()
        if response.message.name == "NegotiateReject":  # already negotiated: reconnect
            self.socket.close()
            self.socket = socket.create_connection(("127.0.0.1", exchange.port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send(
            "Establish", **common, keepAliveInterval=60_000, nextSeqNo=exchange.version + 1,
            cancelOnDisconnectType=None, codTimeoutWindow=0,
        )  # fmt: skip
        assert self._receive().message.name == "EstablishAck"

    def _send(self, name: str, **values: Any) -> None:
        self.socket.sendall(framed(_CODEC.encode(name, values)))

    def _receive(self) -> Any:
        head = self.socket.recv(2, socket.MSG_PEEK | socket.MSG_WAITALL)
        (length,) = struct.unpack("<H", head)
        return _CODEC.decode(self.socket.recv(length, socket.MSG_WAITALL)[4:])


class Requests:
    """Frames: 45 % new orders near the top, 45 % cancels, 10 % aggressive orders."""

    def __init__(self, session: int = SESSION, first: int = 1, seed: int = 1) -> None:
        head = ("businessHeader.sessionID", "businessHeader.msgSeqNum",
                "businessHeader.sendingTime", "businessHeader.marketSegmentID")  # fmt: skip
        order, cancel = (
            _CODEC.codec(_CODEC.schema.by_name[name].id)
            for name in ("SimpleNewOrder", "OrderCancelRequest")
        )
        assert order is not None
        assert cancel is not None
        self._order = order.packer(
            *head, "clOrdID", "senderLocation", "enteringTrader", "securityID", "side", "ordType",
            "timeInForce", "orderQty", "price", "memo", "mmProtectionReset",
            "selfTradePreventionInstruction",
        )  # fmt: skip
        self._cancel = cancel.packer(
            *head, "clOrdID", "senderLocation", "enteringTrader", "securityID", "side",
            "origClOrdID", "memo",
        )  # fmt: skip
        self._session = session
        self.number = first
        self._rng = random.Random(seed)
        self._instruments = [
            i for i in bundled_catalogue() if i.security_type.name in ("CS", "PS") and i.lot == 100
        ]
        self._standing: list[tuple[int, int, int]] = []

    def frame(self, now_ns: int = 1) -> bytes:
        rng, number = self._rng, self.number
        self.number += 1
        draw = rng.random()
        head = (self._session, number, now_ns, 80)
        if draw < 0.45 and self._standing:
            chosen = rng.randrange(len(self._standing))
            standing = self._standing
            standing[chosen], standing[-1] = standing[-1], standing[chosen]
            original, security, side = standing.pop()
            return framed(
                self._cancel(*head, number, b"BVMF", b"ABC", security, side, original, None)
            )
        instrument = rng.choice(self._instruments)
        side = rng.choice((49, 50))
        aggressive = draw >= 0.9
        away = 300 if aggressive else -rng.randrange(1, 40) * 100
        price = 100_000 + away if side == 49 else 100_000 - away
        if not aggressive:
            self._standing.append((number, instrument.security_id, side))
        validity = 51 if aggressive else 48
        return framed(
            self._order(*head, number, b"BVMF", b"ABC", instrument.security_id, side, 50, validity,
                        100, price, None, 0, 0)
        )  # fmt: skip

    def last(self) -> bytes:
        """Return a request whose response shows that all earlier ones were answered."""
        number = self.number
        self.number += 1
        header = {"sessionID": self._session, "msgSeqNum": number, "sendingTime": 1,
                  "marketSegmentID": 80}  # fmt: skip
        values = {"businessHeader": header, "securityReqID": 1, "senderLocation": "BVMF",
                  "enteringTrader": "ABC", "noLegs": []}  # fmt: skip
        return framed(_CODEC.encode("SecurityDefinitionRequest", values))


def throughput(exchange: Exchange) -> float:
    """Return the orders per second of one session that sends as fast as the gateway reads."""
    requests = Requests(first=exchange.version + 1)
    data = b"".join(requests.frame() for _ in range(ORDERS)) + requests.last()
    client = Client(exchange)
    exchange.version = requests.number - 1
    return ORDERS / _exchange_all(client.socket, data)


def _exchange_all(line: socket.socket, data: bytes) -> float:
    """Send all data while reading; return the seconds until the last response."""
    line.setblocking(False)
    waiting = selectors.DefaultSelector()
    both = selectors.EVENT_READ | selectors.EVENT_WRITE
    waiting.register(line, both)
    left, rest, done = memoryview(data), b"", False
    start = time.perf_counter()
    while not done:
        for _, events in waiting.select():
            if events & selectors.EVENT_READ:
                rest, done = _skip_messages(rest + line.recv(1 << 18))
            if events & selectors.EVENT_WRITE and left:
                left = left[line.send(left[: 1 << 16]) :]
                if not left:
                    waiting.modify(line, selectors.EVENT_READ)
    seconds = time.perf_counter() - start
    waiting.close()
    line.close()
    time.sleep(0.1)
    return seconds


def _skip_messages(data: bytes) -> tuple[bytes, bool]:
    """Skip complete messages; return the rest, and whether the last response was among them."""
    position, end, unpack = 0, len(data), struct.Struct("<HHHH").unpack_from
    done = False
    while end - position >= 8:
        length, _, _, template = unpack(data, position)
        if length > end - position:
            break
        done = done or template == _LAST
        position += length
    return data[position:], done


def latencies(exchange: Exchange) -> list[int]:
    """Return the sorted ns from the intended sending time of each order to its first report."""
    requests = Requests()
    client = Client(exchange)
    line = client.socket
    line.setblocking(False)
    unpackers = {}
    for name in ("ExecutionReport_New", "ExecutionReport_Cancel", "ExecutionReport_Reject"):
        codec = _CODEC.codec(_CODEC.schema.by_name[name].id)
        assert codec is not None
        unpackers[codec.message.id] = codec.unpacker("clOrdID")
    step = SECOND // PACED_RATE
    count = PACED_RATE * PACED_SECONDS
    frames = [requests.frame() for _ in range(count)]
    first = time.perf_counter_ns() + 50 * MILLISECOND
    found: dict[int, int] = {}
    sent, rest = 0, b""
    gc.disable()
    while len(found) < count:
        now = time.perf_counter_ns()
        while sent < count and first + sent * step <= now:
            line.send(frames[sent])
            sent += 1
        due = first + sent * step if sent < count else now + SECOND
        # `select` sleeps with microsecond resolution; epoll with milliseconds, and would send late.
        pause = max(0, due - time.perf_counter_ns() - 60_000) / SECOND
        if select.select([line], [], [], pause)[0]:
            rest += line.recv(1 << 18)
            now = time.perf_counter_ns()
            while len(rest) >= 8:
                length, _, block, template = struct.unpack_from("<HHHH", rest)
                if length > len(rest):
                    break
                unpack = unpackers.get(template)
                if unpack is not None:
                    (number,) = unpack(rest, 12, block, length)
                    if number not in found:
                        found[number] = now - (first + (number - 1) * step)
                rest = rest[length:]
    gc.enable()
    line.close()
    return sorted(found.values())


def many(exchange: Exchange) -> float:
    """Return the orders per second of many sessions that send 100 orders each."""
    each = 100
    clients = [Client(exchange, SESSION + n) for n in range(SESSIONS)]
    frames = []
    for number, client in enumerate(clients):
        requests = Requests(client.session, seed=number)
        frames.append(b"".join(requests.frame() for _ in range(each)) + requests.last())
    waiting = selectors.DefaultSelector()
    rests = dict.fromkeys(range(SESSIONS), b"")
    for number, client in enumerate(clients):
        client.socket.setblocking(False)
        waiting.register(client.socket, selectors.EVENT_READ, number)
    start = time.perf_counter()
    for client, data in zip(clients, frames, strict=True):
        assert client.socket.send(data) == len(data)
    left = set(range(SESSIONS))
    while left:
        for key, _ in waiting.select():
            number = key.data
            rests[number], done = _skip_messages(rests[number] + key.fileobj.recv(1 << 16))  # type: ignore[union-attr]
            if done:
                left.discard(number)
    seconds = time.perf_counter() - start
    waiting.close()
    for client in clients:
        client.socket.close()
    return SESSIONS * each / seconds


def replay() -> float:
    """Return the seconds that replaying a journal takes."""
    settings = ExchangeSettings()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        host = ExchangeHost(settings, journal)
        now = time.time_ns()
        host.begin(now)
        host.control({"command": "phase", "phase": "OPEN"}, now)
        connection = host.connect(PRIMARY, now)
        secret = {"auth_type": "basic", "username": str(SESSION), "access_key": KEY}
        common = {"sessionID": SESSION, "sessionVerID": 1, "timestamp": now,
                  "credentials": json.dumps(secret)}  # fmt: skip
        for name, more in (
            ("Negotiate", {"enteringFirm": FIRM}),
            ("Establish", {"keepAliveInterval": 60_000, "nextSeqNo": 1, "codTimeoutWindow": 0,
                           "cancelOnDisconnectType": None}),
        ):  # fmt: skip
            host.receive(connection, framed(_CODEC.encode(name, {**common, **more})), now)
        requests = Requests()
        gc.disable()
        for _ in range(REPLAYED // 1000):
            now += MILLISECOND
            host.receive(connection, b"".join(requests.frame() for _ in range(1000)), now)
            connection.take_output()
            host.take_units()
            host.commit()
        expected = host.engine.market.exec_id
        journal.close()
        del host, connection
        again = Journal(Path(folder))
        host = ExchangeHost(settings, again)
        start = time.perf_counter()
        host.replay()
        seconds = time.perf_counter() - start
        gc.enable()
        again.close()
        assert host.engine.market.exec_id == expected
        return seconds
