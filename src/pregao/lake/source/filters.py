"""Conditions that a query puts on rows, decided on packets and wire bytes before any decoding.

A condition is taken over only if it can be decided exactly as SQL does: null fulfils none but
``IS NULL``, which is left to Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.umdf.keys import PACKET_KEY

Numbers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

PACKET_NUMBERS = frozenset(
    {
        "channel", *PACKET_KEY, "sending_time_ns", "capture_time_ns", "position",
    }
)  # fmt: skip
PACKET_TEXTS = frozenset({"stream", "destination", "capture"})
MESSAGE_NUMBERS = frozenset({"index_in_packet", "security_id"})

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one column: a comparison with a value, one of several, or not null."""

    column: str
    kind: str
    """``EqualTo``, ``In``, ``IsNotNull`` and so on, as Spark calls them."""
    values: tuple[Any, ...] = ()

    def of_numbers(self, numbers: Numbers, null: Flags | None = None) -> Flags:
        """Which numbers fulfil it; those that are null never do."""
        if self.kind == "IsNotNull":
            result = np.ones(len(numbers), np.bool_)
        elif self.kind == "In":
            inside = [value for value in self.values if _LOWEST <= value <= _HIGHEST]
            result = np.isin(numbers, np.array(inside, np.int64))
        else:
            value = self.values[0]
            compare = _COMPARISONS[self.kind]
            if _LOWEST <= value <= _HIGHEST:
                result = compare(numbers.astype(np.int64, copy=False), value)
            else:
                result = np.full(len(numbers), compare(0, value), np.bool_)
        return result if null is None else result & ~null

    def of_texts(self, texts: Iterable[str]) -> Flags:
        """Which texts fulfil it."""
        if self.kind == "IsNotNull":
            return np.array([True for _ in texts], np.bool_)
        return np.array([text in self.values for text in texts], np.bool_)


def condition_of(wanted: Any) -> Condition | None:
    """The condition of one of Spark's filters; None if it is not decided here."""
    kind = type(wanted).__name__
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    if len(path) != 1:
        return None
    column = path[0]
    if kind == "IsNotNull":
        known = PACKET_NUMBERS | PACKET_TEXTS | MESSAGE_NUMBERS | {"error"}
        return Condition(column, kind) if column in known else None
    value = getattr(wanted, "value", None)
    if kind == "In":
        if not isinstance(value, list | tuple):
            return None
        values = tuple(each for each in value if each is not None)
    else:
        values = (value,)
    if column in PACKET_TEXTS:
        textual = kind in ("EqualTo", "In") and all(type(each) is str for each in values)
        return Condition(column, kind, values) if textual else None
    if column in PACKET_NUMBERS | MESSAGE_NUMBERS:
        numeric = kind in (*_COMPARISONS, "In") and all(type(each) is int for each in values)
        return Condition(column, kind, values) if numeric else None
    return None
