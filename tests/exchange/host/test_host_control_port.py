"""The control port: for clients that can read its token, a line at a time, for a limited time."""

import json
import os
import socket
import stat

import pytest

from pregao.errors import NetworkError, UsageError
from pregao.exchange.host.admin.control_server import (
    MAX_CONNECTIONS,
    MAX_LINE_BYTES,
    ControlServer,
    read_token,
    send_request,
    token_path,
    write_token,
)
from tests.exchange.host_desk import Exchange, quiet_settings
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def exchange():
    with Exchange() as running:
        yield running


def exchange_bytes(exchange, data, *, read=True):
    """The port's response to bytes, until it closes."""
    port = exchange.server.control_port
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as line:
        line.sendall(data)
        with line.makefile("rb") as answers:
            return answers.readline(), answers.readline() if read else b""


@pytest.mark.parametrize("token", [None, "", "x", 5, [], "é" * 43, "A" * 43])
def test_a_request_without_the_token_is_refused_and_the_connection_closed(exchange, token):
    request = {"command": "failover", "token": token}
    answer, rest = exchange_bytes(exchange, json.dumps(request).encode() + b"\n")
    assert json.loads(answer) == {"error": "the token is missing or wrong"}
    assert rest == b""
    assert exchange.control(command="status")["gateway"] == "primary"


def test_the_token_is_a_file_that_only_its_owner_reads(exchange):
    path = token_path(exchange.server.control_port)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(read_token(path)) >= 43
    assert read_token(path) not in json.dumps(exchange.control(command="status"))


def test_each_start_writes_another_token_and_the_end_removes_it(tmp_path):
    path = tmp_path / "own" / "token"
    settings = quiet_settings(control_token=path)
    seen = set()
    for _ in range(2):
        with Exchange(settings) as running:
            seen.add(read_token(path))
            status = send_request(running.server.control_port, {"command": "status"}, path)
            assert status["starts"] == 1
        assert not path.exists()
    assert len(seen) == 2
    with pytest.raises(NetworkError, match=f"No exchange answers at .*{path}"):
        send_request(running.server.control_port, {"command": "status"}, path)


def test_a_link_or_a_file_that_others_read_is_no_token(tmp_path):
    path, other = tmp_path / "token", tmp_path / "other"
    write_token(other)
    path.symlink_to(other)
    with pytest.raises(UsageError, match="cannot be read"):
        read_token(path)
    with pytest.raises(UsageError, match="not a regular file"):
        write_token(path)
    assert path.is_symlink()
    other.chmod(0o640)
    with pytest.raises(UsageError, match=r"open to others \(mode 0640\).*writes a new token"):
        read_token(other)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(UsageError, match="not a regular file"):
        read_token(fifo)


def test_a_file_of_an_earlier_start_is_replaced_and_not_written_through(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    keeps = tmp_path / "keeps"
    os.link(path, keeps)
    token = write_token(path)
    assert read_token(path) == token
    assert keeps.read_text() == "old"


@pytest.mark.parametrize("sent", [b"", b'{"command": "sta', b"A" * (MAX_LINE_BYTES + 70_000)])
def test_idle_half_sent_and_endless_requests_end(sent, monkeypatch):
    monkeypatch.setattr(ControlServer.__init__, "__kwdefaults__", {"idle_s": 0.05})
    with Exchange() as running:
        port = running.server.control_port
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as line:
            try:
                line.sendall(sent)
                assert line.recv(1) == b""
            except ConnectionError:
                pass  # it closed while we were still sending
        assert running.control(command="status")["starts"] == 1


@pytest.mark.parametrize(
    "line", [b"[" * 5000, b"9" * 5000, b"\xff\xfe", b'{"command": 1}', b"null"]
)
def test_lines_that_are_no_request_are_answered_with_an_error(exchange, line):
    answer, rest = exchange_bytes(exchange, line + b"\n")
    assert "error" in json.loads(answer)
    assert rest == b""


def test_connections_are_bounded(exchange):
    port = exchange.server.control_port
    lines = [socket.create_connection(("127.0.0.1", port), PATIENCE_S)
             for _ in range(MAX_CONNECTIONS + 1)]  # fmt: skip
    assert lines[-1].recv(1) == b""
    for line in lines:
        line.close()
