"""Access to the page: from localhost, and from the page itself."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from pregao.web.origin_guard import HOSTS, refusal
from tests.web.visiting import get, socket_of

NAMES = st.text(string.ascii_lowercase + string.digits + ".-", min_size=1, max_size=20)
OURS = st.sampled_from(sorted(HOSTS))
PORTS = st.integers(1, 65535).map(lambda port: f":{port}") | st.just("")


@given(OURS, PORTS, st.sampled_from(["GET", "HEAD", "POST"]))
def test_the_page_itself_may_ask(name, port, method):
    host = name + port
    assert refusal(host, f"http://{host}", method) is None
    assert (refusal(host, None, method) is None) == (method != "POST")


@given(NAMES.filter(lambda name: name not in HOSTS), PORTS, OURS)
def test_other_names_of_this_machine_are_refused(name, port, ours):
    for host in (name + port, f"{ours}.{name}{port}", f"{name}{ours}{port}", f"{ours}@{name}"):
        refused = refusal(host, None, "GET")
        assert refused is not None
        assert refused[0] == 421
    assert refusal("", None, "GET")[0] == 421


@given(OURS, PORTS, NAMES, PORTS)
def test_other_origins_are_refused(name, port, other, other_port):
    host = name + port
    origins = [
        f"http://{other}{other_port}",
        f"https://{host}",
        "null",
        f"http://{host}.{other}",
        "",
    ]
    for origin in origins:
        if origin != f"http://{host}":
            assert refusal(host, origin, "GET")[0] == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_the_server_refuses(server, headers, status):
    for path in ("", "api/about", "static/js/main.js"):
        assert get(server, path, headers=headers).status_code == status


def test_a_socket_of_another_page_is_refused(server):
    with pytest.raises(InvalidStatus):
        socket_of(server, "ws/replay", origin="http://evil.example")
    with socket_of(server, "ws/replay", origin=server.address.rstrip("/")):
        pass


def test_what_the_page_may_load_is_its_own(server):
    answer = get(server)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


def test_it_is_served_on_loopback_only(server):
    assert server.address.startswith("http://127.0.0.1:")
    assert server._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path", ["static/../serving.py", "static/%2e%2e/serving.py", "static//etc/passwd"]
)
def test_only_files_of_the_page_are_served(server, path):
    assert get(server, path).status_code in (403, 404)
