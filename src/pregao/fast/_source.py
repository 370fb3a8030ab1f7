"""Python source as it is written from a template: lines, depth, constants, compilation."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pregao.fast.model import DecimalField, Field, Group, Kind, Operator, Part, Reference, Value


class Source:
    """Lines of functions, and the names that they use."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._done: list[str] = []
        self._lines: list[str] = []
        self._indent = ""
        self._functions = 0
        self._constants = 0

    def write(self, *lines: str) -> None:
        """Add lines at the depth of now."""
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def under(self, opening: str) -> Iterator[None]:
        """What is written inside belongs to an opening line; to none if that is empty."""
        outer = self._indent
        if opening:
            self.write(opening)
            self._indent += "    "
        yield
        self._indent = outer

    @contextmanager
    def function(self, arguments: str) -> Iterator[str]:
        """What is written inside is a function of its own; its name."""
        outer = self._lines, self._indent
        self._functions += 1
        name = f"segment_{self._functions}"
        self._lines, self._indent = [f"def {name}({arguments}):"], "    "
        yield name
        self._done += self._lines
        self._lines, self._indent = outer

    def constant(self, value: Any) -> str:
        """A name for a value that has no literal."""
        for name, known in self.names.items():
            if name.startswith("K") and known is value:
                return name
        self._constants += 1
        name = f"K{self._constants}"
        self.names[name] = value
        return name

    def compiled(self, name: str, file_name: str) -> Any:
        """The function of that name; all are compiled."""
        code = compile("\n".join(self._done), file_name, "exec")
        names = dict(self.names)
        # What is run was written above, with every name and value of a template as a literal.
        exec(code, names)  # noqa: S102
        return names[name]


def literal(kind: Kind, value: Value | None) -> str:
    """A value as source shows it to users: Unicode strings as texts."""
    if kind is Kind.UNICODE and isinstance(value, bytes):
        return repr(value.decode())
    return repr(value)


def absent(part: Part) -> tuple[str, int] | None:
    """The bits and the number of null bytes of an absent part; None if it leaves a trace."""
    if isinstance(part, Group):
        return ("0", 0) if part.optional else None
    if isinstance(part, Reference) or not part.optional:
        return None
    operation = (
        part.operation
        if isinstance(part, Field)
        else (part.exponent if isinstance(part, DecimalField) else part.length.operation)
    )
    if operation.operator is Operator.CONSTANT:
        return "0", 0
    if operation.operator is Operator.DEFAULT:
        return ("0", 0) if operation.initial is None else ("1", 1)
    return ("", 1) if operation.operator in (Operator.NONE, Operator.DELTA) else None


@dataclass(frozen=True, slots=True)
class Run:
    """Parts next to each other that may all be absent: their bits then, and their null bytes."""

    parts: Many[Part]
    pattern: str
    nulls: int


def run_of(parts: Many[Part], most: int) -> Run:
    """The parts at the beginning that may be absent together; perhaps none.

    One whose mantissa has a bit is left to itself: the bit is not there if it is absent.
    """
    pattern, nulls, count = "", 0, 0
    for part in parts[:most]:
        found = absent(part)
        if found is None or (isinstance(part, DecimalField) and part.mantissa_bits):
            break
        pattern, nulls, count = pattern + found[0], nulls + found[1], count + 1
    return Run(parts[:count], pattern, nulls)
