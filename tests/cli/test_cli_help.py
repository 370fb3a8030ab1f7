"""Help of all commands: `-h`, groups, flags without types, brackets as they are."""

import re

import pytest
import typer.main

from pregao.cli import options
from pregao.cli.main import app


def commands(command=None, path=()):
    """The paths of all commands and groups, with the commands."""
    command = command or typer.main.get_command(app)
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands())


def words(text):
    """The words of a help text, without frames and line breaks."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_both_options_show_the_same_help(pregao, path):
    short, long = pregao(*path, "-h"), pregao(*path, "--help")
    assert (short.code, short.out) == (0, long.out)
    assert "Usage: pregao" in short.out
    assert "<bool>" not in short.out


def test_flags_have_no_type_and_other_options_have_one(pregao):
    lines = pregao("lake", "check", "-h").out.splitlines()
    (flag,) = [line for line in lines if "--deep" in line and "│" in line]
    assert words(flag) == "--deep Read every column of every file."
    assert any("--lake DIR" in words(line) for line in lines)


def test_commands_are_grouped_in_order(pregao):
    out = pregao("-h").out
    assert re.findall("╭─ ([A-Z][a-z ]+) ─", out) == ["Options", *options.PANELS]
    panels = {
        title: re.findall(r"│ ([a-z]+) +[A-Z]", out.partition(f"╭─ {title} ─")[2].partition("╰")[0])
        for title in options.PANELS
    }
    assert panels["Read captures"] == ["decode", "info", "schema"]
    assert panels["Trade"] == ["exchange", "ep"]
    assert {"ingest", "query", "book", "lake"} < set(panels["Build and query a lake"])
    names = [name for panel in panels.values() for name in panel]
    assert sorted(names) == sorted(ALL[()].commands)


def test_brackets_are_printed(pregao):
    assert "pip install 'pregao[plot]'" in words(pregao("plot", "-h").out)
    assert "local[*]" in words(pregao("query", "-h").out)
