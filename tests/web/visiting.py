"""Requests to a page as its own browser sends them: with its token."""

import httpx
from websockets.sync.client import connect

from tests.waiting import PATIENCE_S


def get(server, path="", *, headers=None, **parameters):
    """Ask the page for a path."""
    return httpx.get(
        server.address + path,
        params=parameters or None,
        headers=allowed(server, headers),
        timeout=PATIENCE_S,
    )


def post(server, path, data=None, *, headers=None, **options):
    """Have the page change something."""
    own = {"origin": server.address.rstrip("/"), **(headers or {})}
    if data is not None:
        options["json"] = data
    return httpx.post(
        server.address + path, headers=allowed(server, own), timeout=PATIENCE_S, **options
    )


def socket_of(server, path, **options):
    """Open a WebSocket of the page."""
    return connect(
        server.address.replace("http", "ws") + path,
        additional_headers=allowed(server),
        max_size=None,
        **options,
    )


def allowed(server, headers=None):
    """Headers with the token of a page."""
    return {"authorization": f"Bearer {server.token}", **(headers or {})}
