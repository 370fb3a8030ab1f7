"""Every command with broken inputs: one sentence, the exit code 2, no stack, no escape codes."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pregao.cli.ingest import ingest as ingest_command
from pregao.cli.simulate.command import simulate
from pregao.lake.execution.runner import EngineName
from pregao.lake.storage.lake_store import LakeStore
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]


@cache
def day() -> Path:
    out = Path(mkdtemp(prefix="pregao-sentences-")) / "day"
    simulate(output=out, instruments=4, duration="8s", rate=100.0, quiet=True)
    return out


@cache
def sound_lake() -> Path:
    """A lake with messages and books; tests copy it if they break it."""
    path = day().parent / "lake"
    ingest_command(
        [str(day())], str(path), engine=EngineName.LOCAL, only=["messages,books"], quiet=True
    )
    return path


@pytest.fixture
def lake(tmp_path):
    return Path(shutil.copytree(sound_lake(), tmp_path / "lake"))


def error_line(result, *, code=2):
    """One sentence, and nothing of the program's inside."""
    assert result.code == code, result.err
    assert "Traceback" not in result.err + result.out
    assert "\x1b[" not in result.err + result.out
    assert "bug in Pregão" not in result.err
    (line,) = result.err.splitlines()
    assert line.startswith("pregao: ")
    assert 10 < len(line) < 700
    return line


ABSURD = [
    ("ingest DAY --lake NEW --engine local --max-feed-skew 99999999h", "36500d"),
    ("ingest DAY --lake NEW --engine local --max-feed-skew ²s", "must be a duration"),
    ("ingest DAY --lake NEW --engine local --range-size 0", "must be a size"),
    ("ingest DAY --lake NEW --engine local --channel ²", "from 0 to 255"),
    ("ingest DAY --lake NEW --engine local --stream 1.1.1.1:99999999=incremental", "ADDRESS:PORT"),
    ("ingest DAY --lake NEW --engine local --report NOWHERE/x.json", "--report"),
    ("ingest DAY --lake NEW --engine local --only nothing", "--only must be"),
    ("ingest DAY --lake NEW --engine local --only analytics", "is not a lake"),
    ("ingest DAY --lake NEW --books", "No such option: --books"),
    ("ingest DAY --lake NEW --master [red]here[/red]", "[red]here[/red] is not a Spark master"),
    ("ingest DAY --lake NEW --conf x", "--conf must be"),
    ("ingest DAY --lake NEW --engine local --schema NOWHERE/[x].xml", "[x].xml"),
    ("decode [bold]x[/bold].pcap", "[bold]x[/bold].pcap"),
    ("ingest", "Missing argument"),
    ("stream NOWHERE --lake NEW --once --engine local", "no such folder"),
    ("stream DAY --lake NEW --once --engine local --interval 99999999h", "36500d"),
    ("stream DAY --lake NEW --once --engine local --report NOWHERE/x.json", "--report"),
    ("books --lake LAKE --engine local --report NOWHERE/x.json", "--report"),
    ("books --lake LAKE --engine local --report LAKE", "is a folder"),
    ("books --lake LAKE --engine local --symbol ²", "²"),
    (
        "books --lake LAKE --engine local --depth 99999999999999999999",
        "must be from 1 to 100",
    ),
    ("books --lake LAKE --engine local --checkpoint-every 99999999999h", "36500d"),
    ("books --lake NOWHERE --engine local", "is not a lake"),
    ("book ² --lake LAKE", "has no instrument ²"),
    ("book 99999999999999999999999 --lake LAKE", "has no instrument"),
    ("book [red]x[/red] --lake LAKE", "[red]x[/red]"),
    ("book PETR4 --lake LAKE --at 99999999999999999999999", "from 1970 to 2262"),
    ("book PETR4 --lake LAKE --at 0001-01-01", "from 1970 to 2262"),
    ("book PETR4 --lake LAKE --at ²²²²²²²²²²", "--at must be a time"),
    ("book PETR4 --lake LAKE --date 9999-12-31", "9999-12-31"),
    ("book PETR4 --lake LAKE --depth x", "--depth"),
    ("book PETR4 --lake LAKE --channel 999", "255"),
    ("audit --lake LAKE --symbol [x]", "[x]"),
    ("audit --lake LAKE --limit 99999999999999999999999", "--limit"),
    ("export ticks --lake LAKE -o NOWHERE/x.csv", "no folder"),
    ("export ticks --lake LAKE -o x.[csv]", "must end in"),
    ("export book --lake LAKE --symbol PETR4 --at 99999999999999999999999 -o x.csv", "2262"),
    ("analytics --lake LAKE --engine local --date 9999-12-31", "has no data of 9999-12-31"),
    ("analytics --lake NOWHERE --engine local", "is not a lake"),
    ("analytics --lake LAKE --engine here", "'local', 'spark'"),
    ("analytics --lake LAKE --engine local --master yarn", "--master is for Spark"),
    ("books --lake LAKE --engine local --master local[*]", "--master is for Spark"),
    ("books --lake LAKE --engine local --conf a=b", "--conf is for Spark"),
    ("books --lake LAKE --master here", "here is not a Spark master"),
    ("ingest DAY --lake NEW --engine local --master yarn", "omit it with --engine local"),
    ("stream DAY --lake NEW --once --engine local --master yarn", "is for Spark"),
    ("query SHOW --lake LAKE --engine local --master yarn", "--master is for Spark"),
    ("query SHOW --lake LAKE --engine local --conf a=b", "--conf is for Spark"),
    ("analytics --lake LAKE --interval 99999999999999h", "--interval"),
    ("analytics --lake LAKE --date 9999-99-99", "--date must be a date"),
    ("analytics --lake LAKE --table [x]", "[x]"),
    ("query DROP_TABLE_packets --lake LAKE", "DROP_TABLE_PACKETS is not one"),
    ("query SELECT([red]) --lake LAKE", "The query failed"),
    ("query VALUES(1) --lake [red]", "[red] is not a lake"),
    ("query VALUES(1) --lake LAKE -o x.xls", "must end in"),
    ("query VALUES(1) --lake LAKE -o NOWHERE/x.csv", "no folder"),
    ("query VALUES(1) --lake LAKE --limit 99999999999999999999999", "--limit"),
    ("query VALUES(1) --lake LAKE --engine [x]", "--engine"),
    ("lake tables [x] --lake LAKE", "no table [x]"),
    ("lake compact [x] --lake LAKE", "no table [x]"),
    ("lake vacuum --lake LAKE --older-than 99999999999999h", "36500d"),
    ("lake check --lake DAY", "is not a lake"),
    ("query --lake LAKE", "No query given"),
    ("query VALUES(1)", "--lake DIR"),
    ("query --example [x] --lake LAKE", "no bundled query '[x]'"),
    ("query SELECT(1)FROM(v_nothing) --lake LAKE", "`v_nothing` cannot be found"),
    ("query VALUES(1) --example vwap_by_minute --lake LAKE", "not both"),
    ("lake tables v_[x] --lake LAKE", "no table v_[x]"),
    ("lake views --lake NOWHERE", "is not a lake"),
    ("lake views --lake LAKE -o NOWHERE/x.sql", "no folder"),
    ("lake ddl --lake LAKE --schema a.b.c", "CATALOG.NAME"),
    ("lake ddl --lake LAKE --schema .", "CATALOG.NAME"),
    ("lake dictionary --lake NOWHERE", "is not a lake"),
    ("lake symbol [red]x[/red] --lake LAKE", "[red]x[/red]"),
    ("lake symbol 99999999999999999999999 --lake LAKE", "knows no instrument"),
    ("lake symbol PETR4 --lake LAKE --date 9999-12-31", "of 9999-12-31"),
    ("lake drop --lake LAKE", "Select what to drop"),
    ("lake drop --lake LAKE --date ²", "--date must be a date"),
    ("lake drop --lake LAKE --channel 999", "from 0 to 255"),
    ("lake drop --lake LAKE --channel 99 --yes", "no data of channel 99"),
    ("lake drop --lake LAKE --ingest [red] --dry-run", "matches no ingest"),
    ("lake drop --lake LAKE --ingest abcd --date 2026-05-21", "cannot be combined"),
    ("lake drop --lake NOWHERE --date 2026-05-21 --yes", "is not a lake"),
    ("simulate --output NEW --date 9999-12-31", "9999-12-31"),
    ("simulate --output NEW --date 0001-01-01", "0001-01-01"),
    ("simulate --output NEW --rate nan", "--rate"),
    ("simulate --output NEW --duration 99999999999999999999999999h", "--duration"),
    ("simulate --output NEW --messages 99999999999999999999 --duration 2s", "--messages"),
    ("simulate --output NEW --profile [red]x[/red].toml", "[red]x[/red].toml"),
    ("decode [red]nope[/red]", "[red]nope[/red]"),
    ("decode DAY --since 99999999999999999999999", "from 1970 to 2262"),
    ("decode DAY --limit x", "--limit"),
    ("decode --hex zz", "hexadecimal"),
    ("decode --nope", "No such option"),
    ("info [red]", "[red]"),
    ("schema [red]", "[red]"),
    ("schema --version 99999999999999999999999", "is unknown"),
    ("pack NOWHERE/x.tar.gz", "no folder"),
    ("demo -o /dev/null/x", "Cannot create folder"),
    ("nope", "No such command"),
]


@pytest.mark.parametrize(("line", "words"), ABSURD)
def test_absurd_arguments_are_one_line_errors(pregao, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    paths = {
        "DAY": str(day()),
        "NEW": str(tmp_path / "new"),
        "LAKE": str(sound_lake()) if "LAKE" in line else "",
        "NOWHERE": str(tmp_path / "nowhere"),
    }
    arguments = []
    for part in line.split():
        head, slash, tail = part.partition("/")
        arguments.append(paths[head] + slash + tail if head in paths else part)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert words in error_line(pregao(*arguments))
    assert not (tmp_path / "new").exists() or line.startswith("ingest DAY")


READING = [
    ["query", "SELECT * FROM umdf_order_mbo_50"],
    ["query", "SELECT * FROM umdf_order_mbo_50", "-o", "rows.csv"],
    ["books", "--engine", "local", "--depth", "3"],
    ["lake", "compact"],
    ["query", "SELECT * FROM v_umdf_order_mbo_50"],
]
DROPPING = ["lake", "drop", "--channel", "51", "--yes"]


def files(lake, table):
    return [Path(uri) for uri in LakeStore(lake).file_uris(table)]


@pytest.mark.parametrize("harm", ["missing", "empty", "cut", "noise"])
@pytest.mark.parametrize("command", [*READING[:3], *READING[4:], DROPPING])
def test_a_parquet_file_that_is_missing_or_damaged(
    pregao, lake, tmp_path, monkeypatch, command, harm
):
    monkeypatch.chdir(tmp_path)
    for path in files(lake, "umdf_order_mbo_50"):
        content = path.read_bytes()
        path.unlink()
        if harm == "empty":
            path.touch()
        elif harm == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif harm == "noise":
            path.write_bytes(b"\x1b[31m" * (len(content) // 5))
    error_line(pregao(*command, "--lake", lake))
    assert not Path("rows.csv").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["book", "PETR4"],
        ["audit"],
        ["export", "ticks", "-o", "t.csv"],
        ["export", "book", "-o", "-"],
    ],
)
@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_books_that_are_missing_or_damaged(pregao, lake, tmp_path, monkeypatch, command, harm):
    monkeypatch.chdir(tmp_path)
    for table in ("book_checkpoints", "book_audit", "ticks"):
        for path in files(lake, table):
            content = path.read_bytes()
            path.unlink()
            if harm == "cut":
                path.write_bytes(content[: len(content) // 2])
    line = error_line(pregao(*command, "--lake", lake))
    assert "not built" not in line
    assert not Path("t.csv").exists()


@pytest.mark.parametrize(
    "command", [["lake", "tables"], ["lake", "check"], ["query", "SHOW TABLES"]]
)
def test_a_log_that_is_damaged(pregao, lake, command):
    for path in (lake / "packets" / "_delta_log").iterdir():
        path.write_text("{")
    error_line(pregao(*command, "--lake", lake))


def test_a_lake_that_is_missing(pregao, lake):
    shutil.rmtree(lake)
    for command in (["lake", "tables"], ["book", "PETR4"], ["query", "VALUES (1)"], ["audit"]):
        assert "is not a lake" in error_line(pregao(*command, "--lake", lake))


def process(*arguments, limit=None, **options):
    """A real process of the command, whose files have a maximum size."""

    def prepare():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.Popen(
        [sys.executable, "-c", "from pregao.cli.main import run; run()", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,  # noqa: PLW1509 - no threads here
        cwd=ROOT,
        **options,
    )


class Ended:
    def __init__(self, running):
        out, self.err = running.communicate(timeout=PATIENCE_S)
        self.out = out or ""
        self.code = running.returncode


LIMIT = 8_000
FULL = {
    "ingest": ["ingest", "DAY", "--lake", "NEW", "--engine", "local", "-q"],
    "stream": ["stream", "DAY", "--lake", "NEW", "--once", "--engine", "local", "-q"],
    "books": ["books", "--lake", "LAKE", "--engine", "local", "--depth", "3", "-q"],
    "analytics": ["analytics", "--lake", "LAKE", "--engine", "local", "-q"],
    "export": ["export", "ticks", "--lake", "LAKE", "-o", "NEW.parquet"],
    "query": ["query", "SELECT * FROM packets", "--lake", "LAKE", "-o", "NEW.csv"],
    "decode": ["decode", "DAY", "-o", "NEW.jsonl"],
    "simulate": ["simulate", "--output", "NEW", "--duration", "5s", "--quiet"],
    "pack": ["pack", "NEW.tar.gz"],
}


@pytest.mark.parametrize("command", FULL)
def test_where_files_cannot_grow(lake, tmp_path, command):
    new = tmp_path / "new"
    paths = {"DAY": str(day()), "NEW": str(new), "LAKE": str(lake)}
    arguments = [
        paths.get(part, part.replace("NEW", str(new))) if "NEW" in part or part in paths else part
        for part in FULL[command]
    ]
    line = error_line(Ended(process(*arguments, limit=LIMIT)))
    assert "File too large" in line
    # An incomplete file is not taken for a complete one.
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("new.")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["lake", "tables"],
        ["query", "SELECT * FROM packets", "--limit", "1000"],
        ["export", "ticks", "-o", "-"],
        ["book", "PETR4", "--json"],
    ],
)
def test_where_standard_output_is_full(arguments):
    with Path("/dev/full").open("w") as full:
        running = process(*arguments, "--lake", sound_lake(), stdout=full)
        assert "No space left" in error_line(Ended(running))


def test_an_interrupt_is_one_line_and_130(tmp_path):
    fifo = tmp_path / "fifo.pcap"
    os.mkfifo(fifo)
    running = process("decode", fifo)
    with fifo.open("wb"):  # which waits until the command reads
        running.send_signal(signal.SIGINT)
        assert error_line(Ended(running), code=130) == "pregao: interrupted."


def test_an_interrupt_while_a_market_is_simulated_is_one_line_and_130(tmp_path):
    """It reaches the process in which the market trades, too."""
    arguments = ["--output", tmp_path / "day", "--duration", "24h", "--rate", "1000"]
    running = process("simulate", *arguments, start_new_session=True)
    capture = tmp_path / "day" / "051_Incremental_A.pcap"
    until(lambda: capture.exists() and capture.stat().st_size)
    os.killpg(running.pid, signal.SIGINT)
    assert error_line(Ended(running), code=130) == "pregao: interrupted."
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_an_interrupt_while_spark_runs_is_one_line_and_130():
    sql = "SELECT count(*) FROM range(100000000000) WHERE id % 7 = 3 AND sqrt(id) > 1e9"
    running = process(
        "query", sql, "--lake", sound_lake(), "--master", "local[1]", start_new_session=True
    )
    until(lambda: _has_a_task(running.pid), running.poll, every=0.1)
    os.killpg(running.pid, signal.SIGINT)
    assert error_line(Ended(running), code=130) == "pregao: interrupted."


def _has_a_task(process_id):
    """Whether a Java that this process has started runs a task of Spark, by a thread's name."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    for child in children:
        for name in Path(f"/proc/{child}/task").glob("*/comm"):
            with contextlib.suppress(OSError):  # a thread that has ended meanwhile
                if name.read_text().startswith("Executor task"):
                    return True
    return False
