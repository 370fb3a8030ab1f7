"""How a command ends: its exit code, and one sentence where something went wrong.

A user sees no stack, whatever was raised: `pregao --debug COMMAND …` shows it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import typer

from pregao import extras
from pregao.cli.printing import plain
from pregao.errors import NothingFoundError, PregaoError
from pregao.urls import redacted

DONE, NOTHING, FAILED, INTERRUPTED = 0, 1, 2, 130
_LONGEST = 600
_BLANKS = re.compile(r"[ \t\r\n]+")
# How pyarrow tells what the system said.
_ARROW = re.compile(r"Detail: \[errno \d+\] (.+)$")
# Of the libraries below: their errors are about files and tables, not about our code.
_STORAGE = ("pyarrow", "deltalake", "_duckdb", "duckdb")


def ended(work: Callable[[], Any], debug: Callable[[], bool]) -> int:
    """Do the work of the command line; gives the exit code."""
    try:
        code = work()
        sys.stdout.flush()
    except typer.Abort:
        code = INTERRUPTED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit:
        raise
    except Exception as error:
        if debug():
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            getattr(error, "show", _nothing)()  # it is the help
            return FAILED
        _tell(sentence(error))
        _forget_output()
        return NOTHING if isinstance(error, NothingFoundError) else FAILED
    if code == INTERRUPTED:
        _tell("interrupted.")
        _forget_output()
    return code if isinstance(code, int) else DONE


def _nothing() -> None:
    """Show nothing."""


def sentence(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, PregaoError):
        return _line(str(error))
    if callable(told := getattr(error, "format_message", None)):
        return _misused(error, str(told()))
    if isinstance(error, ImportError) and (missing := extras.told(error)) is not None:
        return str(missing)
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, MemoryError):
        return "There is not enough memory for this."
    if type(error).__module__.split(".")[0] in _STORAGE:
        return _line(str(error)) or type(error).__name__
    return (
        f"Something went wrong that is a mistake of Pregão itself ({type(error).__name__}: "
        f"{_line(str(error))}); `pregao --debug COMMAND …` shows where, please report it."
    )


def _misused(error: BaseException, told: str) -> str:
    """A mistake on the command line, as the library tells it, and where help is."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "pregao"
    words = _line(told).rstrip(".")
    between = "" if words.endswith("?") else ";"
    return f"{words}{between} `{command} --help` tells more."


def _of_the_system(error: OSError) -> str:
    """What the system refused: the file, and why."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    why = error.strerror or _line(str(error)).rstrip(".") or type(error).__name__
    if matched := _ARROW.search(why):
        why = f"A file cannot be {'written' if 'writ' in why else 'read'}: {matched[1]}"
    return _line(f"{' and '.join(names)}: {why}." if names else f"{why}.")


def _line(text: str) -> str:
    words = redacted(plain(_BLANKS.sub(" ", text).strip()))
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def _tell(words: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"pregao: {words}\n")
        sys.stderr.flush()


def _forget_output() -> None:
    """Let nothing else be said: by Python's last flush, or by Java and workers that end."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
