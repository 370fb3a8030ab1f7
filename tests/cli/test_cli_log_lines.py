"""Lines of logs and stack traces on the terminal: control characters in them are escaped."""

import logging
import sys

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from pregao.cli import console, main
from pregao.web.server import PageServer
from tests.cli import test_cli_control_characters as characters
from tests.cli.test_cli_control_characters import Terminal, unsafe
from tests.waiting import PATIENCE_S, until

# Without lone surrogates, which pytest's own record of log lines cannot send between processes.
EVIL = characters.EVIL.encode("utf-8", "ignore").decode()
ESCAPED = "\\u001b]0;x\\u0007"


def terminal_of(monkeypatch):
    """The standard error of a command, a terminal."""
    err = Terminal()
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(logging.getLogger("pregao"), "handlers", [])
    console.guard()
    main._print_log()
    return err


def test_a_log_line_of_ours_is_escaped(monkeypatch):
    terminal = terminal_of(monkeypatch)
    log = logging.getLogger("pregao.test")
    log.warning("%s: cannot be read", f"/lake/{EVIL}")
    assert terminal.text.startswith(f"pregao: /lake/{ESCAPED}")
    try:
        raise FileNotFoundError(f"s3://KEY:SECRET@bucket/{EVIL}")
    except FileNotFoundError:
        log.exception("A request failed.")
    assert "pregao: A request failed.\nTraceback" in terminal.text
    assert f"FileNotFoundError: s3://***@bucket/{ESCAPED}" in terminal.text
    assert "SECRET" not in terminal.text
    assert not unsafe(terminal.text)


def test_the_stack_trace_of_a_page_is_escaped(monkeypatch):
    terminal = terminal_of(monkeypatch)

    async def fails(_request):
        raise FileNotFoundError(f"/lake/{EVIL}")

    with PageServer(Starlette(routes=[Route("/", fails)]), 0) as page:
        bearer = {"Authorization": f"Bearer {page.token}"}
        answer = httpx.get(page.address, headers=bearer, timeout=PATIENCE_S)
        assert answer.status_code == 500
        until(lambda: "FileNotFoundError" in terminal.text)
    assert f"FileNotFoundError: /lake/{ESCAPED}" in terminal.text
    assert "Traceback" in terminal.text
    assert not unsafe(terminal.text)
    assert "\\u001b[31m" not in terminal.text.partition("Traceback")[0]  # no escaped colours
