"""A scenario of ``pregao ep run``: its lines, read before anything is sent, then played."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from pregao.cli.ep_desk import Desk, ExpectationError
from pregao.cli.ep_language import Command, parse
from pregao.errors import PregaoError, UsageError


class Step(NamedTuple):
    """A line of a script."""

    number: int
    command: Command


def read_script(path: Path) -> list[Step]:
    """The steps of a script; a mistake is told with its line."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text.") from None
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            command = parse(line)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if command is not None:
            steps.append(Step(number, command))
    if not steps:
        raise UsageError(f"{path} has no command in it.")
    return steps


async def play(desk: Desk, steps: list[Step], name: str) -> None:
    """Play a script, and show what is sent and what came as expected."""
    expected = 0
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
        expected += command.name == "expect"
    sys.stdout.write(f"{name}: {len(steps)} steps, {expected} expectations, all met\n")
    sys.stdout.flush()
