"""Control characters of arguments, files and the wire never reach a terminal, in any command."""

import ast
import io
import json
import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import pregao.cli
from pregao.cli import console as printing
from pregao.cli import main
from pregao.cli.console import (
    GuardedStream,
    ReadingProgress,
    console,
    guard,
    plain,
    print_line,
    print_table,
)
from pregao.cli.decode.legacy import _text
from pregao.cli.decode.text import TextFormat, _words
from pregao.cli.live.json_lines import line_of
from pregao.events import Synchronized
from pregao.live import LiveEvent
from tests.cli.market import Market, definition, small_market

EVIL = "\x1b]0;x\x07\x1b[31mE\x9b31mV\x7fI\rL\u202e\u2066\u200f\x85\udcff"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def unsafe(text):
    """The characters of a text that could do something to a terminal."""
    ranges = [(0, 8), (11, 31), (0x7F, 0x9F), (0x200E, 0x200F), (0x2028, 0x202E),
              (0x2066, 0x2069), (0xD800, 0xDFFF)]  # fmt: skip
    return [c for c in text if any(low <= ord(c) <= high for low, high in ranges)]


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal, or a file."""

    def __init__(self, terminal=True):
        super().__init__(io.BytesIO(), encoding="utf-8", errors="strict")
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    @property
    def text(self):
        self.flush()
        return self.buffer.getvalue().decode("utf-8")


def commands(command, path=()):
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path)


# What each command is given: every argument and name that it takes is hostile.
CASES = {
    "decode": [[EVIL], ["CAPTURE"], ["CAPTURE", "--format", "jsonl"], ["--hex", EVIL],
               ["CAPTURE", "--format", EVIL], ["CAPTURE", "--channel", EVIL]],
    "info": [[EVIL], ["CAPTURE"], ["CAPTURE", "--json"]],
    "schema": [[EVIL], [EVIL, "--json"], ["--schema", EVIL]],
    "demo": [[EVIL], [f"--{EVIL}"]],
    "warm": [[EVIL], [f"--{EVIL}"]],
    "simulate": [["--output", EVIL, "--profile", EVIL], ["--output", f"{EVIL}/x", "--seed", EVIL]],
    "live": [["--config", EVIL], ["--config", "SETTINGS"]],
    "replay": [[EVIL, "--to", "127.0.0.1:1"], ["CAPTURE", "--to", EVIL],
               ["CAPTURE", "--speed", EVIL]],
    "ingest": [[EVIL, "--lake", "LAKE"], ["CAPTURE", "--lake", f"{EVIL}://x"]],
    "stream": [["--source", EVIL, "--lake", "LAKE"], ["--source", EVIL]],
    "query": [[EVIL, "--lake", EVIL], [f"SELECT '{EVIL}'", "--lake", "LAKE"]],
    "books": [["--lake", EVIL], ["--lake", "LAKE", "--date", EVIL]],
    "book": [[EVIL, "--lake", EVIL], [EVIL, "--lake", "LAKE", "--at", EVIL]],
    "audit": [["--lake", EVIL], ["--lake", "LAKE", "--date", EVIL]],
    "export": [[EVIL, "--output", EVIL], ["trades", "--output", EVIL, "--lake", EVIL]],
    "plot": [[EVIL, EVIL, "--output", EVIL], ["depth", EVIL, "--output", "x.svg", "--lake", EVIL]],
    "analytics": [["--lake", EVIL], ["--lake", "LAKE", "--date", EVIL]],
    "ui": [["--lake", EVIL], ["--port", EVIL]],
    "pack": [[f"{EVIL}/{EVIL}"]],
    "doctor": [[EVIL], [f"--{EVIL}"]],
    "lake tables": [["--lake", EVIL], [EVIL, "--lake", "LAKE"]],
    "lake check": [["--lake", EVIL]],
    "lake vacuum": [["--lake", EVIL]],
    "lake compact": [[EVIL, "--lake", "LAKE"], ["--lake", EVIL]],
    "lake views": [["--lake", EVIL]],
    "lake ddl": [["--lake", EVIL], ["--dialect", EVIL, "--lake", "LAKE"]],
    "lake symbol": [[EVIL, "--lake", EVIL], [EVIL, "--lake", "LAKE"]],
    "lake dictionary": [[EVIL], ["--output", f"{EVIL}/x"]],
    "lake drop": [["--lake", EVIL], ["--lake", "LAKE", "--date", EVIL]],
    "ep shell": [["--to", EVIL], ["--session", EVIL]],
    "ep run": [[EVIL], ["SETTINGS", "--to", EVIL]],
    "exchange run": [[EVIL], ["SETTINGS"]],
    "exchange repair": [[EVIL], [EVIL, "--json"]],
    "exchange ctl status": [["--port", EVIL]],
    **{
        f"exchange ctl {name}": [[*[EVIL] * count, "--control", EVIL], [EVIL] * count]
        for name, count in {
            "phase": 2, "halt": 1, "auction": 1, "resume": 1, "bust": 2, "cancel": 1, "news": 1,
            "band": 1, "protect": 4, "unprotect": 1, "pair": 2, "position": 3, "give-up": 3,
            "take-up": 1, "add": 1, "change": 1, "remove": 1, "reset": 1, "end-day": 0, "day": 1,
            "disconnect": 1, "failover": 0, "settlement": 2, "closing": 2, "open-interest": 2,
            "quantity-band": 1, "reference": 2, "forbid": 1, "delete-side": 2, "reset-book": 1,
            "reset-stream": 1, "trade": 3, "amend-trade": 2, "delta": 2, "blacklist": 1,
        }.items()
    },
}  # fmt: skip


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a command with terminals for its streams; what both of them show."""
    capture = tmp_path / f"{EVIL}.pcap".replace("/", "_")
    settings = tmp_path / f"{EVIL}.toml"
    monkeypatch.chdir(tmp_path)
    small_market().write(capture)
    settings.write_text('"\x9b\u202e" = "\u2066"\n', "utf-8")
    named = {"CAPTURE": str(capture), "SETTINGS": str(settings), "LAKE": str(tmp_path / "lake")}

    def run(*arguments):
        out, err = Terminal(), Terminal(terminal=False)
        words = [named.get(each, each) for each in arguments]
        monkeypatch.setattr(sys, "argv", ["pregao", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit):
            main.run()
        return COLOUR.sub("", out.text), COLOUR.sub("", err.text)

    return run


def test_every_command_has_a_case():
    known = set(commands(typer.main.get_command(main.app)))
    assert known <= set(CASES), f"give {sorted(known - set(CASES))} hostile arguments in CASES"


@pytest.mark.parametrize("command", sorted(commands(typer.main.get_command(main.app))))
def test_no_command_prints_a_control_character(command, run):
    for arguments in CASES[command]:
        out, err = run(*command.split(), *arguments)
        assert not unsafe(out), (arguments, out)
        assert not unsafe(err), (arguments, err)
        assert "Traceback" not in err


def test_a_symbol_from_the_wire_is_escaped(run, tmp_path):
    market = Market()
    market.send(definition(1001, "PETR4XX").replace(b"PETR4XX", b"A\x1b[2J\x9b\x7f"))
    market.write(tmp_path / "hostile.pcap")
    for options in ([], ["--format", "jsonl"]):
        out, _ = run("decode", tmp_path.joinpath("hostile.pcap").as_posix(), *options)
        assert "\\u001b[2J" in out
        assert not unsafe(out)


@pytest.mark.parametrize("odd", ["\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200f", "\r"])
def test_whole_columns_escape_each_kind_of_control_character(odd):
    texts = pa.array(["PETR4", f"a{odd}b", 'c"d'])
    quoted = _words(texts, TextFormat.JSON).to_pylist()
    assert [json.loads(each) for each in quoted] == texts.to_pylist()
    for shown in (quoted, _words(texts, TextFormat.TEXT).to_pylist()):
        assert not unsafe("".join(shown))


def test_lines_of_a_live_feed_and_of_the_legacy_feed_are_escaped():
    assert not unsafe(_text({"Headline": EVIL, "Lines": [{"Text": "a\u202e"}]}))
    line = line_of(LiveEvent(72, EVIL, Synchronized(None, 0, 0), None))
    assert not unsafe(line)
    assert json.loads(line)["symbol"] == EVIL


@given(st.text())
def test_plain_text_has_no_control_characters_and_is_otherwise_the_same(text):
    shown = plain(text)
    assert not unsafe(shown)
    assert plain(shown) == shown
    if not re.search(r"\\u[0-9a-f]{4}", text):
        read = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), shown)
        assert read == text


def test_json_stays_json():
    words = {"name": EVIL, EVIL: ["a\tb", "ç€"]}
    assert json.loads(plain(json.dumps(words, ensure_ascii=True))) == words


def test_a_guarded_stream_escapes_text_and_passes_bytes_and_colours(monkeypatch):
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    guard()
    guard()
    assert isinstance(sys.stdout, GuardedStream)
    assert not isinstance(sys.stdout._stream, GuardedStream)
    sys.stdout.write("a\x1b[31m\tb\n")
    sys.stderr.writelines(["\x9b\n"])
    typer.echo("\x07")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\x1b\x00")
    print_line(console(), "red\x1b[2J", "bold red")
    assert err.text == "\\u009b\n"
    written, _, styled = out.text.partition("\x1b\x00")
    assert written == "a\\u001b[31m\tb\n\\u0007\n"
    assert "\x1b[1;31mred\\u001b[2J\x1b[0m" in styled


def test_the_bar_of_a_capture_escapes_its_name(monkeypatch):
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    with ReadingProgress("reading") as progress:
        progress.begin(f"a[red]{EVIL}", 100)
        progress.reached(100)
    shown = re.sub(r"\x1b\[([0-9;]*m|\?25[lh]|2K|1A)|\r", "", err.text)
    assert "reading a[red]\\u001b]0;" in shown
    assert not unsafe(shown)


@pytest.mark.parametrize("width", ["200", "20"])
def test_tables_escape_titles_columns_and_cells(width, monkeypatch):
    out = Terminal()
    monkeypatch.setenv("COLUMNS", width)
    print_table(console(out), EVIL, [EVIL, "n"], [[EVIL, 1]], numbers="n")
    assert not unsafe(COLOUR.sub("", out.text))
    assert "\\u001b[31mE" in out.text


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_no_module_of_the_commands_bypasses_the_guard():
    """Streams are those of `sys`, which are guarded; consoles are made in one module."""
    folder = Path(pregao.cli.__file__).parent
    for path in sorted(folder.glob("*.py")):
        made = set(calls(ast.parse(path.read_text("utf-8"))))
        assert "print" not in made, path
        assert not made & {"sys.__stdout__.write", "sys.__stderr__.write"}, path
        if path.name != "terminal.py":
            assert not {name for name in made if name.split(".")[-1] == "Console"}, path
    assert "guard" in set(calls(ast.parse(Path(main.__file__).read_text("utf-8"))))
    assert printing.plain("\x1b") == "\\u001b"
