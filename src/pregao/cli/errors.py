"""Exit codes of commands, and errors as one line on standard error.

Stack traces are printed only with `pregao --debug COMMAND …`.
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
from pregao.cli.console import plain
from pregao.errors import NothingFoundError, PregaoError
from pregao.safe_io.urls import redacted

DONE, NOTHING, FAILED, INTERRUPTED = 0, 1, 2, 130
_MAX_TEXT = 600
_BLANKS = re.compile(r"[ \t\r\n]+")
# The operating system's message inside a pyarrow error.
_ARROW = re.compile(r"Detail: \[errno \d+\] (.+)$")
# Libraries whose errors are about files and tables, not about bugs in Pregão.
_STORAGE = ("pyarrow", "deltalake", "_duckdb", "duckdb")


def run_command(work: Callable[[], Any], debug: Callable[[], bool]) -> int:
    """Run the command line and return the exit code."""
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
            getattr(error, "show", _nothing)()  # prints the help
            return FAILED
        _print_error(sentence(error))
        _forget_output()
        return NOTHING if isinstance(error, NothingFoundError) else FAILED
    if code == INTERRUPTED:
        _print_error("interrupted.")
        _forget_output()
    return code if isinstance(code, int) else DONE


def _nothing() -> None:
    """Do nothing."""


def sentence(error: BaseException) -> str:
    """Return the message of an error in one line."""
    if isinstance(error, PregaoError):
        return _line(str(error))
    if callable(format_message := getattr(error, "format_message", None)):
        return _misused(error, str(format_message()))
    if (
        isinstance(error, ImportError)
        and (missing := extras.missing_extra_message(error)) is not None
    ):
        return str(missing)
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, MemoryError):
        return "Out of memory."
    if type(error).__module__.split(".")[0] in _STORAGE:
        return _line(str(error)) or type(error).__name__
    return (
        f"Internal error: {type(error).__name__}: {_line(str(error))}. This is a bug in Pregão; "
        "please report it with the output of `pregao --debug COMMAND …`."
    )


def _misused(error: BaseException, text: str) -> str:
    """Return the library's message about a usage error, with a pointer to the help."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", None) or "pregao"
    words = _line(text).rstrip(".")
    between = "" if words.endswith("?") else ";"
    return f"{words}{between} `{command} --help` shows the usage."


def _of_the_system(error: OSError) -> str:
    """Return the files and the reason of an operating-system error."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    reason = error.strerror or _line(str(error)).rstrip(".") or type(error).__name__
    if detail := _ARROW.search(reason):
        reason = f"Cannot {'write' if 'writ' in reason else 'read'} a file: {detail[1]}"
    return _line(f"{' and '.join(names)}: {reason}." if names else f"{reason}.")


def _line(text: str) -> str:
    words = redacted(plain(_BLANKS.sub(" ", text).strip()))
    return words if len(words) <= _MAX_TEXT else words[: _MAX_TEXT - 1] + "…"


def _print_error(words: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"pregao: {words}\n")
        sys.stderr.flush()


def _forget_output() -> None:
    """Silence later output: Python's final flush, and Java and worker processes that exit."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(devnull, stream.fileno())
