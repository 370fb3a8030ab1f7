"""A real browser for tests: its path, and waits for what the page has drawn."""

import os
import shutil
from pathlib import Path

import pytest

from tests import waiting

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PICTURES = os.environ.get("PREGAO_PICTURES")
"""A folder for the pictures of the README; by default none are made."""


def browser_path():
    """Return the path of Chromium; without one, skip the test and state how to install it."""
    named = os.environ.get("PREGAO_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(
            "no Chromium on the PATH: `apt-get install chromium` installs it, "
            "or PREGAO_CHROMIUM names one"
        )
    return found


def until(page, condition):
    """Wait until an expression is true. It is asked for from outside: the page forbids eval."""
    waiting.until(
        lambda: page.evaluate(condition),
        lambda: (condition, page.evaluate("document.querySelector('#notice')?.textContent")),
    )


def settled(page):
    """Wait until nothing is loading, and return what is drawn."""
    until(
        page,
        "!!window.__pregao && __pregao.page.about && __pregao.drawn.loading === 0"
        " && __pregao.drawn.ladder.length > 0 && !__pregao.page.dirty",
    )
    return page.evaluate("__pregao.drawn")


def picture(page, name):
    """Keep a picture of the page, if pictures are wanted."""
    if PICTURES is not None:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(PICTURES) / name))
