"""One style over all commands: examples, JSON where output is data, options spelled alike."""

import re
from collections import defaultdict

import pytest
import typer
from typer.testing import CliRunner

from pregao.cli import main

WITHOUT_JSON = {
    "decode": "its lines are the data; -o and --format jsonl write JSON",
    "demo": "it shows what others do",
    "simulate": "its output is files, truth/summary.json among them",
    "replay": "it sends packets, and says what it sent",
    "ingest": "--report writes JSON",
    "stream": "--report writes JSON",
    "books": "--report writes JSON",
    "export": "its output is a file",
    "plot": "its output is a picture",
    "analytics": "its output is tables; `lake tables --json` lists them",
    "pack": "its output is a file",
    "warm": "its output is a cache",
    "exchange": "it runs until it is stopped; `exchange ctl status --json` shows its state",
    "lake views": "its output is SQL",
    "lake ddl": "its output is SQL",
    "lake dictionary": "its output is Markdown",
    "lake drop": "it asks before it acts, and says what it did",
    "ui": "its output is a page",
    "ep shell": "it is typed at",
    "ep run": "it says whether what was expected came",
}
ORDERS = "exchange ctl "
"""Their commands do one thing, and say that it is done."""
SHORT = {
    "--output": "-o", "--force": "-f", "--quiet": "-q", "--limit": "-n", "--template": "-t",
    "--yes": "-y",
}  # fmt: skip
DIFFERENT = {
    "--output": "a file, a folder, or either",
    "--schema": "one file, several that different captures have, or where `lake ddl` puts tables",
    "--channel": "`book` is about one channel",
    "--date": "some are about one day",
    "--symbol": "a piece of news is about one instrument",
    "--feed": "which feed a destination is; how the exchange sends",
    "--interval": "one span, or the lengths of several kinds of bars",
}
"""Options that do not take the same on all commands that have them, and why."""


def commands():
    """Every command that does something, by its words."""

    def inside(command, words):
        inner = getattr(command, "commands", None)
        if inner is None or command.invoke_without_command:
            yield " ".join(words), command
        for name, each in (inner or {}).items():
            yield from inside(each, [*words, name])

    return dict(inside(typer.main.get_command(main.app), []))


COMMANDS = {name: command for name, command in commands().items() if name}


def options_of(command):
    return [each for each in command.params if each.param_type_name == "option"]


def names_of(command):
    return {name for each in options_of(command) for name in each.opts}


def test_there_are_commands_to_check():
    assert {"decode", "lake tables", "exchange", "exchange ctl halt", "ep run"} <= set(COMMANDS)
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_of_the_command_itself(name):
    result = CliRunner().invoke(main.app, [*name.split(), "--help"], terminal_width=200)
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    assert re.search(r"Examples?:", words)
    assert f"pregao {name}" in words.split("Example", 1)[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_uses_existing_options(name):
    known = names_of(COMMANDS[name]) | {"--help", "--debug"}
    for line in (COMMANDS[name].epilog or "").split("\n\n"):
        example = line.removeprefix("Example: ").removeprefix("Examples: ")
        for part in re.split(r"; |, then: ", example):
            if part.startswith(f"pregao {name} "):
                used = set(re.findall(r"(?<=\s)--[a-z][a-z-]*", part.split(" > ")[0]))
                assert used <= known, part


def test_data_can_be_printed_as_json():
    without = {name for name in COMMANDS if "--json" not in names_of(COMMANDS[name])}
    assert {name for name in without if not name.startswith(ORDERS)} == set(WITHOUT_JSON)
    assert "exchange ctl status" not in without


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_help_and_are_spelled_alike(name):
    for option in options_of(COMMANDS[name]):
        long = [each for each in option.opts if each.startswith("--")]
        short = [each for each in option.opts if not each.startswith("--")]
        assert long, option.opts
        assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)*", each) for each in long), long
        assert option.help, long
        assert option.help.rstrip().endswith((".", "…")), option.help
        wanted = next((SHORT[each] for each in long if each in SHORT), None)
        assert short == ([] if wanted is None else [wanted]), long


def test_options_of_one_name_take_the_same():
    """An option name means the same kind of value on all commands."""
    kinds = defaultdict(set)
    for command in COMMANDS.values():
        for option in options_of(command):
            kinds[option.opts[0]].add((option.metavar, option.is_flag, option.multiple))
    assert {name for name, found in kinds.items() if len(found) > 1} == set(DIFFERENT)


def test_every_command_that_takes_a_lake_takes_the_one_that_is_set():
    opted_in = {"live", "lake dictionary"}  # without one they do something else
    for name, command in COMMANDS.items():
        for option in options_of(command):
            if "--lake" in option.opts:
                assert (option.envvar == "PREGAO_LAKE") is (name not in opted_in), name
