"""``pregao ui``: what it refuses, and that it serves until it is ended."""

import re
import signal
import subprocess
import sys
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest
from typer.testing import CliRunner

from pregao.api.lake import Lake
from pregao.cli.main import app
from pregao.cli.ui import _open_browser
from pregao.clock import MINUTE
from pregao.errors import UsageError
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lake", "a", "--demo"], "only one of"),
        (["--demo", "--live", "live.toml"], "only one of"),
        (["--demo", "--exchange", "9612"], "--exchange requires --live"),
        (["--lake", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--live", "/nowhere.toml"], "no such file"),
        (["--lake", "a", "--token-file", "/nowhere"], "--token-file /nowhere cannot be read"),
        (["--lake", "a", "--tz", "Brasil"], "--tz must be a time zone"),
        ([], "No lake given: use --lake"),
    ],
)
def test_impossible_values_are_reported(words, message):
    result = CliRunner().invoke(app, ["ui", "--no-open", *words])
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"


def test_without_the_extra_the_error_states_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["ui", "--no-open", "--lake", "a"])
    assert isinstance(result.exception, UsageError)
    assert "pregao[ui]" in str(result.exception)


def test_it_serves_until_it_is_interrupted(tmp_path):
    settings = SimulationSettings(
        profile="equities", out=tmp_path / "day", seed=1, instruments=2, messages=100,
        duration_ns=MINUTE,
    )  # fmt: skip
    Simulation(settings).run()
    Lake(tmp_path / "lake").ingest(tmp_path / "day", analytics=False)
    command = [sys.executable, "-m", "pregao", "ui", "--no-open", "--port", "0"]
    command += ["--lake", str(tmp_path / "lake"), "--tz", "America/Sao_Paulo"]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running,
        ExitStack() as left,
    ):
        left.callback(running.kill)  # or a failure here would wait for it forever
        line = running.stderr.readline()
        address, token = re.search(r"(http://127\.0\.0\.1:\d+/)\?token=(\S+)", line).groups()
        assert httpx.get(f"{address}api/about", timeout=PATIENCE_S).status_code == 403
        page = httpx.Client(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_S)
        left.callback(page.close)
        about = page.get(f"{address}api/about").json()
        assert about["zone"] == "America/Sao_Paulo"
        assert about["days"][0]["offset"] == -3 * 3600
        found = page.get(
            f"{address}api/instruments", params={"day": about["days"][0]["day"]}
        ).json()["instruments"]
        own = {"day": about["days"][0]["day"], "channel": found[0]["channel"], "id": found[0]["id"]}
        content = page.get(f"{address}api/instrument", params=own).json()
        assert content["intervals"] == []  # no analytics were built
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 0
        assert running.stderr.read() == ""


def test_the_browser_gets_the_token_by_a_file_that_only_we_may_read(monkeypatch):
    seen = []

    def look(address):
        path = Path(url2pathname(urlsplit(address).path))
        seen.append((address, path.read_text(), path.parent.stat().st_mode & 0o777))

    monkeypatch.setattr(webbrowser, "open", look)
    url = "http://127.0.0.1:1/?token=secret"
    with ExitStack() as opened:
        _open_browser(opened, url)
    ((address, text, mode),) = seen
    assert "secret" not in address
    assert f'content="0; url={url}"' in text
    assert mode == 0o700
    assert not Path(urlsplit(address).path).exists()
