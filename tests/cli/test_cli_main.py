"""The command itself: help, version, errors, the demonstration, and real processes."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from pregao import __version__
from pregao.cli import main
from pregao.cli.console import ReadingProgress
from tests.cli.market import Market, order, small_market
from tests.waiting import PATIENCE_S

COMMANDS = [
    "decode", "info", "schema", "demo", "simulate", "ingest", "stream", "query",
    "books", "book", "audit", "export", "analytics", "lake", "pack", "exchange", "doctor",
]  # fmt: skip


def process(*arguments, **options):
    """A real process of the command."""
    return subprocess.Popen(
        [sys.executable, "-c", "from pregao.cli.main import run; run()", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_version(pregao):
    assert pregao("--version").out == f"pregao {__version__}\n"


def test_help_names_the_commands(pregao):
    result = pregao("--help")
    assert result.code == 0
    assert all(command in result.out for command in COMMANDS)


def test_help_does_not_load_what_only_commands_need():
    code = (
        "import sys; from pregao.cli import main; "
        "print(sorted({'numba', 'pyarrow', 'numpy', 'rich.table'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_command_is_refused(pregao):
    result = pregao("dekode")
    assert (result.code, "decode" in result.err) == (2, True)
    assert "?;" not in result.err


def test_debug_shows_where_an_error_arose(pregao, monkeypatch, tmp_path):
    from pregao.errors import CaptureError

    missing = str(tmp_path / "none.pcap")
    assert pregao("decode", missing).err.count("\n") == 1
    monkeypatch.setattr(sys, "argv", ["pregao", "--debug", "decode", missing])
    with pytest.raises(CaptureError, match="there is no such file"):
        main.run()


def test_an_interrupt_ends_with_130(pregao, monkeypatch, tmp_path):
    from pregao.cli.decode import request

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(request, "decode_captures", interrupted)
    assert pregao("decode", tmp_path).code == 130


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path):
    market = Market()
    for n in range(1, 3000):
        market.send(order(rptSeq=n), number=n)
    capture = market.write(tmp_path / "long.pcap")
    running = process("decode", capture, capture, capture)
    assert running.stdout.readline().endswith(b"rptSeq=1\n")
    running.stdout.close()
    assert running.wait(PATIENCE_S) == 0
    assert running.stderr.read() == b""
    running.stderr.close()


def test_an_interrupt_leaves_no_files(pregao, monkeypatch, tmp_path):
    from pregao.cli.decode.tables import TableOutput

    capture = small_market().write(tmp_path / "day.pcap")
    seen: list[str] = []

    def interrupted(*arguments):
        seen.extend(path.suffix for path in (tmp_path / "out").iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(TableOutput, "write", interrupted)
    assert pregao("decode", capture, "-o", tmp_path / "out").code == 130
    assert seen == [".part"]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_process_that_is_interrupted(tmp_path):
    fifo = tmp_path / "fifo.pcap"
    os.mkfifo(fifo)
    running = process("decode", fifo)
    with fifo.open("wb") as feed:  # which waits until the command reads
        feed.write(small_market().write(tmp_path / "day.pcap").read_bytes()[:300])
        feed.flush()
        # Repeat it: the signal is ignored while a kernel compiles.
        for _ in range(6):
            running.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(10)
                break
    running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130


def test_pipes_by_name_are_read_once(tmp_path):
    data = small_market().write(tmp_path / "day.pcap").read_bytes()
    fifo = tmp_path / "fifo.pcap"
    os.mkfifo(fifo)
    running = process("decode", fifo, "-o", tmp_path / "out.jsonl")
    with fifo.open("wb") as feed:
        feed.write(data)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, err
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 9


def test_text_comes_from_a_pipe_while_it_is_written(tmp_path):
    data = small_market().write(tmp_path / "day.pcap").read_bytes()
    running = process("decode", "-", stdin=subprocess.PIPE)
    out, err = running.communicate(data, timeout=PATIENCE_S)
    assert running.returncode == 0
    assert out.count(b"\n") == 9
    assert b"8 packets, 9 messages, 0 rejected" in err


def test_the_demonstration_where_it_cannot_write(pregao, tmp_path):
    (tmp_path / "file").touch()
    result = pregao("demo", "-o", tmp_path / "file" / "demo")
    assert (result.code, "Cannot create folder" in result.err) == (2, True)


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    with ReadingProgress("decoding") as quiet:
        quiet.begin("a.pcap", 100)
        quiet.reached(50)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with ReadingProgress("decoding") as bar:
        bar.begin("a.pcap", 100)
        bar.reached(50)
        bar.begin("b.pcap", None)
    assert "decoding" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pregao doc", {"doctor"}),
        ("pregao book --l", {"--lake"}),  # which needs no lake to be set
        ("pregao lake tables --j", {"--json"}),
    ],
)
def test_a_shell_completes_commands_and_options(pregao, monkeypatch, words, offered):
    monkeypatch.setenv("_PREGAO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    result = pregao()
    assert (set(result.out.split()), result.err) == (offered, "")


def test_the_script_for_a_shell(pregao, monkeypatch):
    # Which shell runs the tests is not what is tested, and may not be found out.
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    assert "_PREGAO_COMPLETE" in pregao("--show-completion", "bash").out
