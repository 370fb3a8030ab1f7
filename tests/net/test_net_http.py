"""The small HTTP server: what it answers, and what it refuses."""

import asyncio
import http.client
import socket
import threading
from http import HTTPStatus

import pytest

from pregao.errors import NetworkError
from pregao.net.http import HttpServer, Response
from tests.waiting import until


def broken():
    raise KeyError("a secret of the inside")


@pytest.fixture
def server():
    pages = {
        "/health": lambda: Response("well\n"),
        "/ready": lambda: Response("not yet\n", HTTPStatus.SERVICE_UNAVAILABLE),
    }
    pages |= {"/fails": broken, "/large": lambda: Response("x" * (32 << 20))}
    made = HttpServer(0, pages, idle_s=0.5)
    yield made
    made.close()


def response_of(server, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def get(host):
    return f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def raw(server, request):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        return answer


def test_pages_are_answered(server):
    assert response_of(server, "GET", "/health") == (200, "well\n")
    assert response_of(server, "GET", "/health?verbose=1") == (200, "well\n")
    assert response_of(server, "GET", "/ready") == (503, "not yet\n")


def test_other_requests_are_refused_and_the_next_one_is_answered(server):
    assert response_of(server, "GET", "/")[0] == 404
    assert "/health /large /ready" in response_of(server, "GET", "/x")[1]
    assert response_of(server, "POST", "/health")[0] == 405
    assert raw(server, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(server, b"GET /" + b"x" * 20_000 + b"\r\n").startswith(b"HTTP/1.1 431 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60):
        pass  # gone without a word
    assert response_of(server, "GET", "/health") == (200, "well\n")


def test_a_port_in_use_is_a_one_line_error(server):
    with pytest.raises(NetworkError, match=f"Cannot serve HTTP on 127.0.0.1:{server.port}"):
        HttpServer(server.port, {})


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_a_request_names_this_machine(server, name):
    for host in (name, f"{name}:{server.port}", f"{name}:1"):
        assert raw(server, get(host)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "",
     "localhost@evil.example", "127.0.0.1:x", "[::2]", "localhost\r\nHost: localhost"],
)  # fmt: skip
def test_a_name_of_another_site_is_refused(server, host):
    answer = raw(server, get(host))
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"well" not in answer
    assert raw(server, b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("begin", [b"", b"GET", b"GET /health HTTP/1.1\r\nHost: local"])
def test_a_connection_that_sends_no_complete_request_ends(server, begin):
    assert raw(server, begin) == b""
    assert server._open == 0


def test_a_peer_that_does_not_read_is_abandoned(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        until(lambda: server._open == 0)


def test_an_error_of_ours_is_an_answer_and_is_logged(server, caplog):
    assert response_of(server, "GET", "/fails") == (500, "internal error; see the log\n")
    assert caplog.records[-1].exc_info[0] is KeyError
    assert response_of(server, "GET", "/health") == (200, "well\n")


def test_a_server_that_does_not_start_in_time_is_an_error(monkeypatch):
    monkeypatch.setattr("pregao.net.http._START_S", 0.05)
    begin = threading.Event()
    start = asyncio.start_server

    async def late(*values, **options):
        begin.wait(60)
        return await start(*values, **options)

    monkeypatch.setattr("pregao.net.http.asyncio.start_server", late)
    before = set(threading.enumerate())
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:0: the server did not start in 0.05 s"):
        HttpServer(0, {})
    (left,) = set(threading.enumerate()) - before
    begin.set()
    left.join(60)
    assert not left.is_alive()
