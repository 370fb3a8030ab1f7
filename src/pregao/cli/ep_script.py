"""Scripts of ``pregao ep run``: all lines are parsed before anything is sent, then run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from pregao.cli.ep_desk import ExpectationError, OrderConsole
from pregao.cli.ep_language import ConsoleCommand, parse
from pregao.errors import PregaoError, UsageError


class ScriptStep(NamedTuple):
    """A command of a script and its line number."""

    number: int
    command: ConsoleCommand


def read_script(path: Path) -> list[ScriptStep]:
    """Read the steps of a script; errors name the line."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file.") from None
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            command = parse(line)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if command is not None:
            steps.append(ScriptStep(number, command))
    if not steps:
        raise UsageError(f"{path} contains no command.")
    return steps


async def play(desk: OrderConsole, steps: list[ScriptStep], name: str) -> None:
    """Run a script and print what is sent and the expectations that were met."""
    expectations = 0
    for number, command in steps:
        if command.name == "quit":
            break
        try:
            for line in await desk.do(command):
                sys.stdout.write(f"{line}\n")
        except ExpectationError as error:
            raise ExpectationError(f"{name}:{number}: {error}") from None
        except PregaoError as error:
            raise UsageError(f"{name}:{number}: {error}") from None
        expectations += command.name == "expect"
    sys.stdout.write(f"{name}: {len(steps)} steps, {expectations} expectations, all met\n")
    sys.stdout.flush()
