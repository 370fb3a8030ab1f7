"""Errors of Spark as one-line messages that a user can act on."""

from __future__ import annotations

import re

from pregao.errors import PregaoError

# The last line of a Python traceback that a task raised with one of our errors.
_OURS = re.compile(r"^(?:pyspark\.\S+: )?pregao\.errors\.\w+: (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)): (.*)$", re.MULTILINE)
_CONDITION = re.compile(r"\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: [0-9A-Z]{5}")
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_POSITION = re.compile(r"line (\d+),? pos (\d+)")
_POSITION_AT_END = re.compile(r"[;( ]*line \d+,? pos \d+[;) ]*$")
_JAVA = re.compile(r"An error occurred while calling [^\n]*\n: (?:[\w.$]+: )?(.+)")
_NOT_THERE = "ModuleNotFoundError: No module named 'pregao'"
_MAX_TEXT = 500


def sentence(error: BaseException) -> str:
    """Return the essence of an error of Spark or of a task: no stack, one line."""
    text = str(error)
    if isinstance(error, PregaoError):
        return text
    if _NOT_THERE in text:
        return (
            "the workers' Python has no Pregão; install it there, or send an archive: see "
            "docs/cluster.md."
        )
    if matched := _OURS.findall(text):
        return _short(matched[-1])
    if "Traceback (most recent call last)" in text and (matched := _PYTHON.findall(text)):
        kind, text_of_error = matched[-1]
        return _short(f"{kind.rpartition('.')[2]}: {text_of_error}")
    if (matched := _CAUSE.findall(text)) and not _CONDITION.search(text):
        return _short(matched[-1])
    if matched_java := _JAVA.match(text):
        return _short(matched_java.group(1))
    # The first line is the error; advice, the query, its plan and the stack follow.
    first = _STATE.sub("", _CONDITION.sub("", text)).strip().partition("\n")[0]
    position = _POSITION.search(text)
    if position is None:
        return _short(first)
    where = f" (line {position.group(1)}, character {int(position.group(2)) + 1})"
    return _short(_POSITION_AT_END.sub("", first)) + where


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
