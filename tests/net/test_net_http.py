"""The small HTTP server: what it answers, and what it refuses."""

import http.client
import socket
from http import HTTPStatus

import pytest

from pregao.errors import NetworkError
from pregao.net import HttpServer, Response


@pytest.fixture
def server():
    pages = {
        "/health": lambda: Response("well\n"),
        "/ready": lambda: Response("not yet\n", HTTPStatus.SERVICE_UNAVAILABLE),
    }
    made = HttpServer(0, pages)
    yield made
    made.close()


def asked(server, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def raw(server, request):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
        return answer


def test_pages_are_answered(server):
    assert asked(server, "GET", "/health") == (200, "well\n")
    assert asked(server, "GET", "/health?verbose=1") == (200, "well\n")
    assert asked(server, "GET", "/ready") == (503, "not yet\n")


def test_other_requests_are_refused_and_the_next_one_is_answered(server):
    assert asked(server, "GET", "/")[0] == 404
    assert "there are /health /ready" in asked(server, "GET", "/x")[1]
    assert asked(server, "POST", "/health")[0] == 405
    assert raw(server, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(server, b"GET /" + b"x" * 20_000 + b"\r\n").startswith(b"HTTP/1.1 431 ")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60):
        pass  # gone without a word
    assert asked(server, "GET", "/health") == (200, "well\n")


def test_a_port_in_use_is_a_sentence(server):
    with pytest.raises(NetworkError, match=f"127.0.0.1:{server.port} cannot be served"):
        HttpServer(server.port, {})
