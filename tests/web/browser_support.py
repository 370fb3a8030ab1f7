"""A real browser for tests: where it is, and how to wait for what the page has drawn."""

import os
import shutil
import time
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PICTURES = os.environ.get("PREGAO_PICTURES")
"""A folder for the pictures of the README; by default none are made."""
_PATIENCE_S = 30.0


def browser_path():
    """Where Chromium is; without it the test is skipped, and says what to do."""
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
    end = time.monotonic() + _PATIENCE_S
    while not page.evaluate(condition):
        if time.monotonic() > end:
            said = page.evaluate("document.querySelector('#notice')?.textContent")
            raise AssertionError(f"{condition} did not come true; the page says {said!r}")
        time.sleep(0.02)


def settled(page):
    """Wait until nothing is loading, and give what is drawn."""
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
