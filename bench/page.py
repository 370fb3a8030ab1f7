"""The page of a day in a browser: latency of seeks, frame rate of a replay."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import days
from bench.measure import Row
from pregao.api.lake import Lake

SECTION = "page"
SEEKS = 100
SPEED = 100
SECONDS = 20
CHROMIUM = os.environ.get("PREGAO_CHROMIUM") or shutil.which("chromium")

# Types a time and waits for the frame in which its book is drawn.
SEEK = """
(at) => new Promise((done) => {
  const { page } = __pregao;
  const clock = document.querySelector("#clock");
  const [hours, minutes] = [Math.floor(at / 3600e9), Math.floor(at / 60e9) % 60];
  const seconds = ((at % 60e9) / 1e9).toFixed(9).padStart(12, "0");
  clock.value = `${hours}:${String(minutes).padStart(2, "0")}:${seconds}`;
  const began = performance.now();
  clock.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  const book = page.book;
  const look = () => {
    if (page.waiting || page.book === book) requestAnimationFrame(look);
    else requestAnimationFrame(() =>
      done({ drawn: performance.now() - began, answered: page.seekMs }));
  };
  requestAnimationFrame(look);
})
"""

# Counts frames, frames with another book, and the time between frames.
WATCH = """
(seconds) => new Promise((done) => {
  const { page } = __pregao;
  const [began, at] = [performance.now(), page.at];
  let [last, book, changed, stalled] = [began, page.book, 0, 0];
  const gaps = [];
  const look = (now) => {
    gaps.push(now - last);
    last = now;
    changed += page.book !== book;
    stalled += document.querySelector("#play").hasAttribute("aria-busy");
    book = page.book;
    if (performance.now() - began < seconds * 1e3) requestAnimationFrame(look);
    else done({
      frames: gaps.length / ((performance.now() - began) / 1e3),
      changed: changed / gaps.length, stalled: stalled / gaps.length,
      speed: (page.at - at) / 1e6 / (performance.now() - began),
      late: gaps.filter((gap) => gap > 25).length / gaps.length,
    });
  };
  requestAnimationFrame(look);
})
"""


def run() -> Iterator[Row]:
    if CHROMIUM is None:
        print("  no Chromium on the PATH; PREGAO_CHROMIUM names one")
        return
    with tempfile.TemporaryDirectory(dir=days.folder()) as folder:
        lake = Path(folder) / "lake"
        Lake(lake).ingest(days.simulated_day())
        yield from measured(lake)


def measured(lake: Path) -> Iterator[Row]:
    """Measure the page of a lake, which may be an existing one."""
    with served(lake) as address, browser() as opened:
        page = opened.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address)
        page.wait_for_selector("#ladder")
        yield from seeks(page)
        yield from replayed(page)


@contextmanager
def served(lake: Path) -> Iterator[str]:
    """Run `pregao ui` and yield its address."""
    command = [sys.executable, "-m", "pregao", "ui", "--lake", str(lake)]
    with subprocess.Popen(
        [*command, "--no-open", "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        try:
            found = re.search(r"http://\S+", running.stderr.readline())
            assert found is not None
            yield found.group()
        finally:
            running.terminate()


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def settled(page: Any) -> None:
    """Wait until nothing is loading; polls from here, because the page forbids eval."""
    while not page.evaluate(
        "!!window.__pregao && !!__pregao.page.book && __pregao.page.loading === 0"
    ):
        page.wait_for_timeout(20)


def seeks(page: Any) -> Iterator[Row]:
    settled(page)
    about = page.evaluate("({ begin: __pregao.page.about.begin, end: __pregao.page.about.end })")
    chance = random.Random(1)
    found = []
    for _ in range(SEEKS):
        found.append(page.evaluate(SEEK, chance.randrange(about["begin"], about["end"])))
        settled(page)  # the heatmap is drawn before the next seek
    for name, words in (("answered", "answered"), ("drawn", "drawn")):
        times = sorted(one[name] for one in found)
        middle, late = times[len(times) // 2], times[len(times) * 95 // 100]
        note = f"95 %: {late:.0f} ms, longest: {times[-1]:.0f} ms"
        target = "≤ 300" if name == "drawn" else ""
        yield Row(SECTION, f"seek to a random time, {words}", middle, "ms", target, note)


def replayed(page: Any) -> Iterator[Row]:
    opened = page.evaluate(
        "__pregao.page.about.phases.find(([, , status]) => status === 'OPEN')?.[0]"
        " ?? __pregao.page.about.begin"
    )
    page.evaluate(SEEK, opened + 600 * 10**9)
    settled(page)
    page.select_option("#speed", str(SPEED))
    page.click("#play")
    page.wait_for_timeout(2_000)
    watched = page.evaluate(WATCH, SECONDS)
    page.click("#play")
    note = (
        f"{watched['changed']:.0%} of them with a new book, {watched['late']:.1%} late, "
        f"{watched['stalled']:.1%} stalled; speed {watched['speed']:.0f}x"
    )
    what = f"replay at {SPEED}x"
    yield Row(SECTION, what, watched["frames"], "frames/s", "≥ 60", note)


if __name__ == "__main__":
    for row in measured(Path(sys.argv[1])):
        print(row)
