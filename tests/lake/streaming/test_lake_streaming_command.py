"""`pregao stream`: the command line and its results."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from pregao.cli.stream import EPILOG, stream
from pregao.errors import UsageError
from pregao.lake.ingest.pipeline import ingest
from tests.lake.days import assert_same, day, rows
from tests.lake.lake_support import ROOT
from tests.waiting import PATIENCE_S, until

app = typer.Typer()
app.command(epilog=EPILOG)(stream)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_once_without_spark(tmp_path):
    folder, lake, once = day(duration="12s"), tmp_path / "lake", tmp_path / "once"
    report = tmp_path / "report.jsonl"
    options = ["--once", "--engine", "local", "--quiet-period", "0s", "--report", report]
    done = run(folder, "--lake", lake, "--batch-size", "300k", *options)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    batches = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(lines) == len(batches) > 1
    assert all("messages" in line and "packets" in line for line in lines)
    assert all(batch["committed"] for batch in batches)
    ingest([str(folder)], str(once))
    assert_same(once, lake)
    again = run(folder, "--lake", lake, "--quiet", *options)
    assert (again.exit_code, again.output) == (0, "")


def test_channels_that_are_not_selected_are_only_counted(tmp_path):
    folder, lake = day(duration="12s"), tmp_path / "lake"
    done = run(folder, "--lake", lake, "--once", "--engine", "local", "--channel", "7")
    assert done.exit_code == 0, done.output
    assert "filtered" in done.output
    assert rows(lake, "umdf_order_mbo_50") == []
    assert {row["outcome"] for row in rows(lake, "packets")} == {"filtered"}


def test_it_continues_until_it_is_stopped(tmp_path):
    """A file that grows is followed; an interrupt ends the command well."""
    source = next(day(duration="12s").glob("*_Incremental_A.pcap")).read_bytes()
    folder, lake, once = tmp_path / "folder", tmp_path / "lake", tmp_path / "once"
    folder.mkdir()
    growing = folder / "a.pcap"
    growing.write_bytes(source[: len(source) // 3])
    command = "import typer; from pregao.cli.stream import stream; typer.run(stream)"
    options = ["--engine", "local", "--interval", "100ms", "--quiet-period", "500ms"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, folder, "--lake", lake, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert "messages" in process.stdout.readline()
        with growing.open("ab") as file:
            file.write(source[len(source) // 3 :])
        ingest([str(growing)], str(once))
        wanted = len(rows(once, "packets"))
        until(lambda: len(rows(lake, "packets")) == wanted, every=0.1)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
        assert "stopped" in rest
    finally:
        process.kill()
        process.stdout.close()
        process.wait(PATIENCE_S)
    assert_same(once, lake)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interval", "soon"], "--interval must be a duration"),
        (["--max-feed-skew", "1"], "--max-feed-skew must be a duration"),
        (["--batch-size", "much"], "--batch-size must be a size"),
        (["--range-size", "0"], "--range-size must be a size"),
        (["--channel", "x"], "--channel must be an integer"),
        (["--feed", "x"], "--feed must be"),
    ],
)
def test_errors_are_one_line(tmp_path, options, words):
    done = run(tmp_path, "--lake", tmp_path / "lake", "--engine", "local", *options)
    assert isinstance(done.exception, UsageError)
    assert words in str(done.exception)


def test_a_missing_folder_is_reported(tmp_path):
    done = run(tmp_path / "none", "--lake", tmp_path / "lake", "--engine", "local")
    assert "no such folder" in str(done.exception)
    assert not (tmp_path / "lake").exists()


def test_an_empty_folder_is_no_error(tmp_path):
    shutil.rmtree(tmp_path / "folder", ignore_errors=True)
    (tmp_path / "folder").mkdir()
    options = ["--once", "--engine", "local"]
    done = run(tmp_path / "folder", "--lake", tmp_path / "lake", *options)
    assert (done.exit_code, done.output) == (0, "")


def test_filtered_messages_do_not_count_as_decoded(tmp_path):
    """Another capture of a channel that was left out brings its messages, later on."""
    folder, lake = day(duration="12s"), tmp_path / "lake"
    feeds = {name: tmp_path / name for name in "AB"}
    for name, path in feeds.items():
        path.mkdir()
        shutil.copy(next(folder.glob(f"*_Incremental_{name}.pcap")), path)
    options = ["--lake", lake, "--once", "--engine", "local"]
    assert run(feeds["A"], "--channel", "7", *options).exit_code == 0
    assert run(feeds["B"], *options).exit_code == 0
    ingest([str(feeds["B"])], str(tmp_path / "once"))
    assert len(rows(lake, "umdf_order_mbo_50")) == len(rows(tmp_path / "once", "umdf_order_mbo_50"))
