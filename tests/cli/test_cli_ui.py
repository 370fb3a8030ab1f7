"""``pregao ui``: what it refuses, and that it serves until it is ended."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
from typer.testing import CliRunner

from pregao.api import Lake
from pregao.cli.main import app
from pregao.clock import MINUTE
from pregao.errors import UsageError
from pregao.exchange.simulation import Settings, Simulation
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lake", "a", "--demo"], "takes one of"),
        (["--demo", "--live", "live.toml"], "takes one of"),
        (["--demo", "--exchange", "9612"], "--exchange is for --live"),
        (["--lake", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--live", "/nowhere.toml"], "no such file"),
        (["--lake", "a", "--tz", "Brasil"], "--tz takes a zone"),
        ([], "Name the lake with --lake"),
    ],
)
def test_what_cannot_be_is_said(words, said):
    result = CliRunner().invoke(app, ["ui", "--no-open", *words])
    assert result.exit_code != 0
    assert said in f"{result.output} {result.exception}"


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["ui", "--no-open", "--lake", "a"])
    assert isinstance(result.exception, UsageError)
    assert "pregao[ui]" in str(result.exception)


def test_it_serves_until_it_is_interrupted(tmp_path):
    settings = Settings(
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
        left.callback(running.kill)  # or what fails here would wait for it for ever
        line = running.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        about = httpx.get(f"{address}api/about", timeout=PATIENCE_S).json()
        assert about["zone"] == "America/Sao_Paulo"
        assert about["days"][0]["offset"] == -3 * 3600
        found = httpx.get(
            f"{address}api/instruments", params={"day": about["days"][0]["day"]}, timeout=PATIENCE_S
        ).json()["instruments"]
        own = {"day": about["days"][0]["day"], "channel": found[0]["channel"], "id": found[0]["id"]}
        told = httpx.get(f"{address}api/instrument", params=own, timeout=PATIENCE_S).json()
        assert told["intervals"] == []  # nobody made analytics
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 0
        assert running.stderr.read() == ""
