"""The token of the page: without it nothing is served, and nothing gives it away."""

import os
import re
import stat

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from pregao.errors import UsageError
from pregao.web.origin_guard import MIN_LENGTH, new_token, read_token
from pregao.web.server import PageServer
from tests.waiting import PATIENCE_S
from tests.web.visiting import get, socket_of

PATHS = ("", "api/about", "static/js/main.js", "static/style.css", "nowhere", "?token=", "?a=1")


def small_page(**options):
    """A page that answers one word, whatever is asked."""

    async def word(_request):
        return PlainTextResponse("well")

    async def echo(socket):
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text)

    routes = [
        WebSocketRoute("/ws", echo),
        Route("/{path:path}", word, methods=["GET", "POST"]),
    ]
    return PageServer(Starlette(routes=routes), 0, **options)


@pytest.fixture(scope="module")
def page():
    with small_page() as served:
        yield served


@pytest.fixture(scope="module")
def browser():
    with httpx.Client(timeout=PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_served_without_the_token(page, path):
    answer = httpx.get(page.address + path, timeout=PATIENCE_S)
    assert answer.status_code == 403
    assert "pregao ui" in answer.text
    assert "well" not in answer.text
    assert page.token not in answer.text + str(answer.headers)
    assert answer.headers["referrer-policy"] == "no-referrer"
    kind = "application/json" if path.startswith("api/") else "text/html; charset=utf-8"
    assert answer.headers["content-type"] == kind
    sent = httpx.post(page.address + path, headers={"origin": page.address.rstrip("/")})
    assert sent.status_code == 403
    assert get(page, path).status_code == (200 if "token" not in path else 303)


def test_the_first_visit_leaves_a_cookie_and_an_address_without_the_token(page):
    first = httpx.get(page.url, timeout=PATIENCE_S)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert cookie == f"pregao-{page.port}={page.token}; HttpOnly; SameSite=Strict; Path=/"
    with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as browser:
        opened = browser.get(f"{page.address}api/x?a=1&token={page.token}&b=%2F")
        assert (opened.text, str(opened.url)) == ("well", f"{page.address}api/x?a=1&b=%2F")
        assert browser.get(f"{page.address}static/a").text == "well"
    held = {"cookie": f"other=1; pregao-{page.port}={page.token}; more"}
    with connect(page.address.replace("http", "ws") + "ws", additional_headers=held) as socket:
        socket.send("there")
        assert socket.recv(PATIENCE_S) == "there"


def test_a_visit_from_another_site_continues_from_our_own_page(page):
    # A browser sends no strict cookie after a redirect of such a visit.
    first = httpx.get(page.url, headers={"sec-fetch-site": "cross-site"}, timeout=PATIENCE_S)
    assert (first.status_code, first.headers["refresh"]) == (200, "0; url=/")
    assert page.token in first.headers["set-cookie"]
    assert page.token not in first.text


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/\\evil.example", "//@"])
def test_no_address_with_a_token_leads_elsewhere(page, path):
    target = page.address.rstrip("/") + path + f"?token={page.token}"
    answer = httpx.get(target, timeout=PATIENCE_S)
    assert answer.status_code == 303
    assert re.match(r"/[^/\\]", answer.headers["location"])


WRONG = st.one_of(
    st.text(
        st.characters(min_codepoint=33, max_codepoint=255, exclude_characters=";"), max_size=60
    ),
    st.integers(0, 42).map(lambda cut: ("cut", cut)),
    st.just(("more", "x")),
)


@settings(max_examples=25)
@given(WRONG)
def test_another_token_is_refused(page, browser, wrong):
    match wrong:
        case ("cut", int(length)):
            wrong = page.token[:length]
        case ("more", more):
            wrong = page.token + more
    guess = wrong.encode("latin-1")
    for headers in (
        {b"cookie": f"pregao-{page.port}=".encode() + guess},
        {b"authorization": (b"Bearer " + guess).strip()},
        {b"cookie": f"pregao-{page.port + 1}={page.token}".encode()},
        {b"authorization": f"Basic {page.token}".encode()},
    ):
        assert browser.get(page.address, headers=headers).status_code == 403
    answer = browser.get(page.address, params={"token": wrong})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_socket_needs_the_token(page):
    address = page.address.replace("http", "ws") + "ws"
    for wrong in (address, f"{address}?token={new_token()}"):
        with pytest.raises(InvalidStatus) as refused:
            connect(wrong)
        assert refused.value.response.status_code == 403
    with connect(f"{address}?token={page.token}"), socket_of(page, "ws"):
        pass


def test_tokens_differ_from_start_to_start_and_are_not_logged(page, capfd, caplog):
    caplog.set_level("DEBUG")
    with small_page() as other:
        assert other.token != page.token
        assert len(other.token) >= 43
        headers = {"authorization": f"Bearer {page.token}"}
        assert httpx.get(other.address, headers=headers).status_code == 403
        assert httpx.get(other.url).status_code == 303
        with pytest.raises(InvalidStatus):
            connect(other.address.replace("http", "ws") + f"ws?token={page.token}")
    written = "".join(capfd.readouterr())
    assert other.token not in written
    assert page.token not in written
    logged = [one.getMessage() for one in caplog.records if "client" not in one.name]
    logged = [line for line in logged if not line.startswith(("HTTP Request", "receive_response"))]
    assert not [line for line in logged if other.token in line or page.token in line]


def file_of(tmp_path, text, mode=0o600):
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_can_come_from_a_file(tmp_path):
    token = new_token()
    assert read_token(file_of(tmp_path, f"{token}\n")) == token
    with small_page(token=token) as page:
        assert page.url.endswith(f"?token={token}")
        assert get(page).text == "well"


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("a" * 43, 0o644, "open to others (mode 0644)"),
        ("a" * 43, 0o620, "open to others (mode 0620)"),
        ("", 0o600, "must contain one token"),
        ("a" * (MIN_LENGTH - 1), 0o600, "must contain one token"),
        ("a" * 300, 0o600, "must contain one token"),
        ("a" * 30 + "\nb", 0o600, "must contain one token"),
        ("a" * 30 + "\x1b", 0o600, "must contain one token"),
    ],
)
def test_a_token_file_that_is_not_ours_alone_or_no_token_is_refused(tmp_path, text, mode, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        read_token(file_of(tmp_path, text, mode))


def test_a_token_file_is_a_regular_file(tmp_path):
    own = file_of(tmp_path, "a" * 43)
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(own)
    os.mkfifo(pipe, 0o600)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    for wrong in (link, tmp_path / "none"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_token(wrong)
    for wrong in (pipe, tmp_path):
        with pytest.raises(UsageError, match="is not a regular file"):
            read_token(wrong)
