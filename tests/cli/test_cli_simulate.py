"""``pregao simulate`` on the command line: what it writes, what it says, what it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pregao.cli.simulate import like
from pregao.cli.simulate.command import EPILOG, simulate
from pregao.clock import SECOND
from pregao.errors import PregaoError
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.exchange.traders.profiles import load_profile

SHORT = ["--duration", "2s", "--rate", "150", "--instruments", "4", "--truth-books", "2"]

app = typer.Typer(add_completion=False)
app.command(epilog=EPILOG)(simulate)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def done(*arguments: object) -> Any:
    result = invoke(*arguments)
    assert result.exception is None, result.output
    assert result.exit_code == 0
    return result


def refused(*arguments: object) -> str:
    """The sentence that the command ends with; the main command prints it and exits with 2."""
    result = invoke(*arguments)
    assert isinstance(result.exception, PregaoError), result.output
    sentence = str(result.exception)
    assert "\n" not in sentence
    return sentence


def test_a_run_writes_captures_by_channel_and_stream_and_the_truth(tmp_path):
    out = tmp_path / "day"
    result = done("--output", out, *SHORT)
    assert sorted(path.name for path in out.iterdir()) == [
        "051_Incremental_A.pcap",
        "051_Incremental_B.pcap",
        "051_InstrumentDefinition.pcap",
        "051_Snapshot.pcap",
        "truth",
    ]
    assert sorted(path.name for path in (out / "truth").iterdir()) == [
        "books.jsonl",
        "faults.json",
        "summary.json",
        "trades.jsonl",
    ]
    assert "051_Incremental_A.pcap" in result.stderr
    summary = json.loads((out / "truth/summary.json").read_text())
    assert f"{summary['messages']:,} messages" in result.stderr
    assert str(tmp_path) not in (out / "truth/summary.json").read_text()


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    faults = ["--loss", "A=0.05,B=0.02", "--reorder", "0.05", "--duplicate", "snapshot=0.1"]
    found = []
    for name in ("one", "two"):
        done("--output", tmp_path / name, *SHORT, *faults, "--quiet", "--seed", 7)
        found.append(
            {
                str(path.relative_to(tmp_path / name)): hashlib.sha256(path.read_bytes()).digest()
                for path in (tmp_path / name).rglob("*")
                if path.is_file()
            }
        )
    assert len(found[0]) == 8
    assert found[0] == found[1]


def test_quiet_prints_nothing(tmp_path):
    result = done("--output", tmp_path / "day", *SHORT, "--quiet")
    assert result.output == ""


def test_a_folder_that_is_not_empty_is_left_alone_without_force(tmp_path):
    out = tmp_path / "day"
    done("--output", out, *SHORT, "--quiet", "--compress", "gzip")
    before = sorted(path.name for path in out.iterdir())
    assert "not empty" in refused("--output", out, *SHORT)
    assert sorted(path.name for path in out.iterdir()) == before
    (out / "notes.txt").write_text("mine")
    done("--output", out, *SHORT, "--quiet", "--force")
    # What the earlier run wrote is gone, what it did not write is kept.
    assert not list(out.glob("*.gz"))
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "051_Incremental_A.pcap").exists()


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake with half a minute of a market in which few trade."""
    folder = tmp_path_factory.mktemp("like")
    settings = SimulationSettings(
        "thin-derivatives", folder / "day", seed=4, duration_ns=30 * SECOND
    )
    Simulation(settings).run()
    like.measured(folder / "day", folder / "lake")
    return folder / "lake"


def test_a_day_like_one_of_a_lake_is_shown_next_to_it(tmp_path, lake, monkeypatch):
    monkeypatch.setattr(like, "ROUNDS", 2)
    saved = tmp_path / "like.toml"
    result = done("--like", lake, "--output", tmp_path / "day", "--save-profile", saved)
    shown = {
        words: line.split("│")[2:5]
        for line in result.stdout.splitlines()
        for words in like.WORDS.values()
        if words in line
    }
    assert list(shown) == list(like.WORDS.values())
    one_lot = shown[like.WORDS["one_lot"]]
    assert 0.7 < float(one_lot[0]) < 0.85
    assert 0.8 < float(one_lot[2]) < 1.25
    assert "round 1: all numbers within a factor of" in result.stderr
    assert load_profile(str(saved)).calibrated["one_lot"] == float(one_lot[0])
    # What was saved gives the same day again.
    done("--profile", saved, "--output", tmp_path / "again", "--quiet", "--duration", "5s")


def test_a_day_like_another_reports_errors(tmp_path, lake):
    out = ["--output", tmp_path / "day"]
    assert "has no data of 2020-01-02" in refused("--like", lake, "--date", "2020-01-02", *out)
    assert "channel 9" in refused("--like", lake, "--channel", "9", *out)
    for profile in ("stress", "equities"):
        assert "omit --profile" in refused("--like", lake, "--profile", profile, *out)
    assert "--channel requires --like" in refused("--channel", 72, *out)
    assert "--save-profile requires --like" in refused("--save-profile", "x.toml", *out)
    assert "nowhere" in refused("--like", tmp_path / "nowhere", *out)
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "mine.txt").write_text("mine")
    assert "not empty" in refused("--like", lake, *out)


def test_help_has_an_example():
    result = done("--help")
    text = re.sub(r"\s+", " ", result.output)
    assert "pregao simulate --profile equities --seed 1 --instruments 40 --duration 30m" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "bonds"], "unknown profile 'bonds'; choose one of equities"),
        (["--duration", "soon"], "7d, was 'soon'"),
        (["--duration", "1ms"], "--duration must be from 1s to 24h, was 0.001s"),
        (["--instruments", "0"], "--instruments must be from 1 to 100000, was 0"),
        (
            ["--schema-version", "12"],
            "--schema-version must be one of 7, 8, 9, 10, 15, 16, 17, was 12",
        ),
        (["--rate", "-5"], "orders per second, was -5"),
        (["--messages", "-5"], "--messages must be at least 1, was -5"),
        (["--messages", "99999999999", "--duration", "1s"], "longer --duration"),
        (["--loss", "2"], "--loss: rate must be from 0 to 1, e.g. 0.01, was '2'"),
        (["--reorder", "C=0.1"], "--reorder: unknown feed 'C'"),
        (["--loss", "0.7", "--duplicate", "0.7"], "add up to more than 1"),
        (["--late-join", "later"], "10:05:30, was 'later'"),
        (["--late-join", "23:59"], "--late-join: 23:59 is outside the run"),
        (["--reset-at", "1.5"], "10:05:30, was '1.5'"),
        (["--date", "tomorrow"], "was 'tomorrow'"),
        (["--instruments-file", "absent.toml"], "absent.toml"),
        (["--schedule-file", "absent.toml"], "absent.toml"),
        (["--truth-books", "0"], "--truth-books must be from 1 to 10000, was 0"),
    ],
)
def test_invalid_input_is_refused_in_one_line(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused("--output", tmp_path / "day", *arguments)
    assert not (tmp_path / "day").exists()


def test_a_file_instead_of_the_folder_is_refused(tmp_path):
    out = tmp_path / "day"
    out.write_text("mine")
    assert "day" in refused("--output", out, *SHORT)
    assert out.read_text() == "mine"


def test_instruments_and_schedule_from_files(tmp_path):
    instruments = tmp_path / "instruments.toml"
    instruments.write_text(
        """
        [kind.share]
        security_type = "CS"
        security_sub_type = 1
        product = "EQUITY"
        security_group = "S1"
        cfi_code = "ESVUFR"
        min_price_increment = 0.01
        min_lot_size = 100
        min_order_qty = 100
        channel = 84

        [[instrument]]
        like = "share"
        security_id = 11
        symbol = "ABCD3"
        asset = "ABCD"
        previous_close = 20.00

        [[instrument]]
        like = "share"
        security_id = 12
        symbol = "EFGH3"
        asset = "EFGH"
        previous_close = 7.50
        """,
        encoding="utf-8",
    )
    schedule = tmp_path / "schedule.toml"
    schedule.write_text(
        """
        [[schedule.default]]
        time = "10:00"
        phase = "RESERVED"
        new_session = true
        [[schedule.default]]
        time = "10:30"
        phase = "OPEN"
        [[schedule.default]]
        time = "11:30"
        phase = "CLOSE"
        """,
        encoding="utf-8",
    )
    files = ["--instruments-file", instruments, "--schedule-file", schedule]
    out = tmp_path / "day"
    done("--output", out, "--duration", "3s", *files, "--late-join", "10:00:01", "--quiet")
    assert (out / "084_Incremental_A.pcap").stat().st_size > 1000
    summary = json.loads((out / "truth/summary.json").read_text())
    assert [each["symbol"] for each in summary["instruments"]] == ["ABCD3", "EFGH3"]
    assert summary["capture_from_ns"] == summary["start_ns"] + 10**9
    assert "must be at most 2" in refused("--output", out, *files, "--instruments", 3)
    schedule.write_text(schedule.read_text().replace("11:30", "09:30"), encoding="utf-8")
    assert "times must increase" in refused("--output", tmp_path / "other", *files)


def test_a_profile_of_ones_own_is_refused_by_the_name_of_its_entry(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("flow_version = 2\nrate = -1", encoding="utf-8")
    assert "mine.toml: rate" in refused("--output", tmp_path / "day", "--profile", path)


def test_resets_can_be_given_several_times(tmp_path):
    out = tmp_path / "day"
    done("--output", out, *SHORT, "--quiet", "--reset-at", "0.3", "--reset-at", "sequence@0.6")
    summary = json.loads((out / "truth/summary.json").read_text())
    assert summary["settings"]["resets"] == ["channel@0.3", "sequence@0.6"]
    assert summary["channels"]["51"]["sequence_version"] == 2


def test_a_folder_that_cannot_be_created_is_a_one_line_error(tmp_path):
    (tmp_path / "file").write_text("")
    sentence = refused("--output", tmp_path / "file" / "day", *SHORT)
    assert "cannot be used" in sentence
