"""Bounds of the page: waiting connections, concurrent work, sizes, and errors without traces.

The limits of time are short here; nothing depends on how long something takes, only on its end.
"""

import base64
import os
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from websockets.exceptions import ConnectionClosed

from pregao.web.connections import Limits
from pregao.web.json_routes import MAX_BODY_BYTES, Budget, answer, change
from pregao.web.server import PageServer, live_routes
from tests.waiting import PATIENCE_S, until
from tests.web.visiting import allowed, get, post, socket_of

SHORT = Limits(idle_s=0.4)
DEEP = "[" * 100_000


class Quiet:
    """A live market without any data."""

    mode = "live"

    def health(self):
        return {}

    def view(self, _channel, _security_id):
        return None


@contextmanager
def served(*routes, limits=SHORT):
    async def large(_request):
        return PlainTextResponse(b"x" * (32 << 20))

    async def small(_request):
        return PlainTextResponse("well")

    routes = [*routes, Route("/large", large), Route("/small", small), *live_routes(Quiet(), None)]
    with PageServer(Starlette(routes=routes), 0, limits=limits) as page:
        yield page


@pytest.fixture(scope="module")
def page():
    with served(change("/api/change", lambda given: given.text("a"), Budget())) as made:
        yield made


def opened(page):
    return socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE_S)


def head(page, method="GET", path="/api/none", *more):
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{page.port}",
             f"Authorization: Bearer {page.token}", *more]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def ended(connection):
    """Read to the end of a connection; return the bytes before it."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            found += piece
    return found


def close_code(line):
    """Read to the end of a WebSocket; the code with which it was closed."""
    end = time.monotonic() + PATIENCE_S
    with suppress(ConnectionClosed):
        while time.monotonic() < end:
            line.recv(PATIENCE_S)
    return line.close_code


def connections(page):
    return len(page._server.server_state.connections)


@pytest.mark.parametrize(
    "begin",
    [
        lambda page: b"",
        lambda page: b"GET / HT",
        lambda page: head(page)[:-2],
        lambda page: head(page) + b"GET /",
        head,
        lambda page: head(page, "POST", "/api/change", "Content-Length: 100",
                          "Content-Type: application/json",
                          f"Origin: http://127.0.0.1:{page.port}") + b"{",
        lambda page: head(page, "POST", "/api/none", "Content-Length: 100",
                          f"Origin: http://127.0.0.1:{page.port}") + b"{",
    ],
    ids=["nothing", "half a line", "half a head", "half a second", "idle", "half a body",
         "half a body after its answer"],
)  # fmt: skip
def test_a_connection_that_waits_for_its_peer_ends(page, begin):
    with opened(page) as connection:
        connection.sendall(begin(page))
        ended(connection)
    until(lambda: connections(page) == 0)


@pytest.mark.parametrize("start", ["GET / HTTP/1.1\r\nHost: 127", "POST"])
def test_a_byte_now_and_then_does_not_keep_a_connection_open(page, start):
    if start == "POST":
        origin = f"Origin: http://127.0.0.1:{page.port}"
        kind = "Content-Type: application/json"
        begin = head(page, "POST", "/api/change", "Content-Length: 60000", kind, origin)
    else:
        begin = start.encode()
    with opened(page) as connection:
        connection.sendall(begin)
        connection.settimeout(0.02)

        def closed():
            try:
                connection.sendall(b"1")
                return connection.recv(10) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(closed)


def test_a_peer_that_does_not_read_is_abandoned(page):
    with opened(page) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(head(page, "GET", "/large"))
        assert connection.recv(12) == b"HTTP/1.1 200"
        until(lambda: connections(page) == 0)


def test_an_answer_may_take_longer_than_a_peer_may_wait():
    begun, go_on = threading.Event(), threading.Event()

    def slow(_given):
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return "done"

    with served(answer("/api/slow", slow, Budget())) as page, ThreadPoolExecutor() as threads:
        pending = threads.submit(get, page, "api/slow")
        assert begun.wait(PATIENCE_S)
        with opened(page) as idle:
            assert ended(idle) == b""  # which began later, and has waited too long by now
        go_on.set()
        assert pending.result().json() == "done"


def test_the_number_of_connections_is_limited():
    with served(limits=Limits(max_connections=3)) as page:
        held = [opened(page) for _ in range(3)]
        until(lambda: connections(page) == 3)
        with opened(page) as more:
            assert ended(more) == b""
        for one in held:
            one.close()
        until(lambda: connections(page) == 0)
        assert get(page, "small").text == "well"


def test_a_socket_that_never_sends_anything_is_closed(page):
    with socket_of(page, "ws/live") as silent, socket_of(page, "ws/live") as talking:
        talking.send("{}")
        assert close_code(silent) == 1008
        talking.send("{}")
        assert "health" in talking.recv(PATIENCE_S)


def frame(text):
    mask = os.urandom(4)
    body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text))
    return struct.pack("!BB", 0x81, 0x80 | len(body)) + mask + body


def test_a_socket_with_a_half_sent_message_is_closed(page):
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
               f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}")  # fmt: skip
    with opened(page) as connection:
        connection.sendall(head(page, "GET", "/ws/live", *upgrade))
        assert connection.recv(12) == b"HTTP/1.1 101"
        connection.sendall(frame(b"{}") + frame(b"{}" * 9)[:9])
        ended(connection)
    until(lambda: connections(page) == 0)


def test_concurrent_work_is_bounded_others_wait_and_too_many_are_refused():
    running, counts, begun = [], [], threading.Semaphore(0)
    go_on = threading.Event()

    def slow(given):
        running.append(1)
        counts.append(len(running))
        begun.release()
        assert go_on.wait(PATIENCE_S)
        running.pop()
        return given.text("n")

    budget = Budget(at_once=2, max_waiting=3)
    with served(answer("/api/slow", slow, budget)) as page, ThreadPoolExecutor(9) as threads:
        pending = [threads.submit(get, page, "api/slow", n=str(n)) for n in range(5)]
        assert begun.acquire(timeout=PATIENCE_S)
        until(lambda: budget._open == 5)
        for _ in range(3):
            refused = get(page, "api/slow", n="more")
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert "Too many requests" in refused.json()["error"]
        go_on.set()
        assert sorted(one.result().json() for one in pending) == list("01234")
        assert max(counts) == 2
        assert get(page, "api/slow", n="after").json() == "after"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"a": "b"}', 200),
        (DEEP[:60_000].encode(), 400),
        (b'{"a":' * 10_000, 400),
        (b'{"a": 1' + b"0" * 5_000 + b"}", 400),
        (b"[]", 400),
        (b"{", 400),
        (b"\xff", 400),
        (b"", 400),
        (b"null", 400),
        (DEEP.encode(), 413),
        (b'{"a": "' + b"x" * MAX_BODY_BYTES + b'"}', 413),
    ],
)
def test_any_body_is_answered(page, body, status):
    kind = {"content-type": "application/json"}
    answer = post(page, "api/change", content=body, headers=kind)
    assert answer.status_code == status
    assert (answer.json() == "b") if status == 200 else answer.json()["error"].endswith(".")


@pytest.mark.parametrize(
    "message",
    [DEEP[:60_000], '{"a":' * 10_000, "[]", "nonsense", b"bytes", "", "1" * 5_000, DEEP],
    ids=["deep", "deep tables", "a list", "nonsense", "bytes", "nothing", "long number", "large"],
)
def test_a_socket_that_sends_no_table_is_closed_with_a_code(page, message):
    with socket_of(page, "ws/live") as line:
        line.send(message)
        assert close_code(line) == (1009 if message is DEEP else 1007)
    assert get(page, "small").text == "well"


@pytest.mark.parametrize(
    "request_of",
    [
        lambda page: head(page, "GET", "/" + "x" * 40_000),
        lambda page: head(page, "GET", "/", "X-Long: " + "x" * 40_000),
        lambda page: head(page, "GET", "/", *(f"X-{n}: {n}" for n in range(9_000))),
        lambda page: b"\x00\xff" * 50,
        lambda page: b"GET /\r\n\r\n",
        lambda page: head(page).replace(b"Host", b"Hos\xff"),
        lambda page: head(page, "GET", "http://evil.example/"),
        lambda page: head(page, "POST", "/api/change", "Transfer-Encoding: chunked",
                          f"Origin: http://127.0.0.1:{page.port}") + b"zz\r\n\r\n",
    ],
    ids=["address", "header", "headers", "noise", "no version", "name", "absolute", "chunks"],
)  # fmt: skip
def test_a_request_that_is_too_large_or_none_is_refused(page, request_of, capfd):
    with opened(page) as connection:
        with suppress(OSError):
            connection.sendall(request_of(page))
            connection.shutdown(socket.SHUT_WR)
        found = ended(connection)
    assert found == b"" or int(found.split()[1]) >= 400
    assert get(page, "small").text == "well"
    assert "Traceback" not in "".join(capfd.readouterr())


def test_an_error_of_ours_is_one_line_and_is_logged(caplog):
    def fails(_given):
        raise KeyError("a secret of the inside")

    with served(answer("/api/fails", fails, Budget()),
                answer("/api/nan", lambda _given: float("nan"), Budget())) as page:  # fmt: skip
        for path, kind in (("api/fails", "KeyError"), ("api/nan", "ValueError")):
            answered = get(page, path)
            assert answered.status_code == 500
            assert answered.json() == {
                "error": f"Internal error ({kind}); see the terminal of `pregao ui`."
            }
            assert caplog.records[-1].exc_info[0].__name__ == kind
        assert httpx.get(page.address + "api/none", headers=allowed(page)).status_code == 404
