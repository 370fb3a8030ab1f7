"""Which files of a table a query needs: its conditions, held against the bounds in the log.

An engine is asked how it would answer. What it tells of a scan is a list of conditions that all
hold for the rows it takes from a table, so files without such rows change nothing. Only plain
comparisons of a column with a number or a day are understood; all others are taken to hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.store import DATE

_COMPARED = re.compile(r'"?(\w+)"? (=|<|<=|>|>=) (.+)')
_LISTED = re.compile(r'"?(\w+)"? IN \((.+)\)')
_NUMBER = re.compile(r"(-?\d+)(?:::\w+)?")
_DAY = re.compile(r"'(\d{4}-\d{2}-\d{2})'::DATE")
_OPTIONAL = "optional: "


@dataclass(frozen=True, slots=True)
class Condition:
    """What holds for a column: a comparison with each of some values, one of which is true."""

    column: str
    comparison: str
    values: tuple[int | date, ...]


def conditions(text: str) -> Iterator[Condition]:
    """What is understood of a condition as DuckDB writes it; parts joined by AND one by one."""
    plain = _stripped(text.removeprefix(_OPTIONAL))
    parts = _split(plain, " AND ")
    if len(parts) > 1:
        for part in parts:
            yield from conditions(part)
    elif compared := _COMPARED.fullmatch(plain):
        values = [_value(compared.group(3))]
        yield from _condition(compared.group(1), compared.group(2), values)
    elif listed := _LISTED.fullmatch(plain):
        values = [_value(each) for each in _split(listed.group(2), ", ")]
        yield from _condition(listed.group(1), "=", values)


def _condition(
    column: str, comparison: str, values: Sequence[int | date | None]
) -> Iterator[Condition]:
    known = tuple(value for value in values if value is not None)
    if len(known) == len(values):
        yield Condition(column, comparison, known)


def _value(text: str) -> int | date | None:
    """A number or a day; None if it is something else."""
    if number := _NUMBER.fullmatch(text):
        return int(number.group(1))
    if day := _DAY.fullmatch(text):
        return date.fromisoformat(day.group(1))
    return None


def _stripped(text: str) -> str:
    """A text without the brackets around all of it."""
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1]
    return text


def _closing(text: str) -> int:
    """Where the first bracket is closed; -1 if nowhere."""
    for place, depth in _depths(text):
        if depth == 0:
            return place
    return -1


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """How many brackets are open behind each character that is not within quotes."""
    depth = 0
    quote = ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
            continue
        if character in "'\"":
            quote = character
        depth += (character == "(") - (character == ")")
        yield place, depth


def _split(text: str, by: str) -> list[str]:
    """The parts of a text between separators that are in no brackets and no quotes."""
    parts = []
    begin = 0
    for place, depth in _depths(text):
        if depth == 0 and place >= begin and text.startswith(by, place):
            parts.append(text[begin:place])
            begin = place + len(by)
    return [*parts, text[begin:]]


def admitted(actions: Any, scans: Sequence[Sequence[Condition]]) -> Any:
    """The files of a table that may have rows for one of some scans, each with its conditions."""
    if not scans or not actions.num_rows:
        return actions
    wanted = np.zeros(actions.num_rows, bool)
    for scan in scans:
        own = np.ones(actions.num_rows, bool)
        for condition in scan:
            own &= _may_hold(actions, condition)
        wanted |= own
    return actions.filter(pa.array(wanted))


def _may_hold(actions: Any, condition: Condition) -> Any:
    """Of each file: may the condition hold for one of its rows?"""
    names = (f"min.{condition.column}", f"max.{condition.column}")
    if condition.column == DATE:
        names = (f"partition.{DATE}", f"partition.{DATE}")
    everything = np.ones(actions.num_rows, bool)
    if not set(names) <= set(actions.column_names):
        return everything
    low, high = (actions[name] for name in names)
    found = np.zeros(actions.num_rows, bool)
    for value in condition.values:
        try:
            limit = pa.scalar(value, low.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return everything
        held = _held(condition.comparison, low, high, limit)
        # A file that does not tell its bounds may hold anything.
        found |= held.fill_null(True).to_numpy()
    return found


def _held(comparison: str, low: Any, high: Any, limit: Any) -> Any:
    match comparison:
        case "<":
            return pc.less(low, limit)
        case "<=":
            return pc.less_equal(low, limit)
        case ">":
            return pc.greater(high, limit)
        case ">=":
            return pc.greater_equal(high, limit)
    return pc.and_(pc.less_equal(low, limit), pc.greater_equal(high, limit))
