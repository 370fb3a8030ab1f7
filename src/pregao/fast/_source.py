"""Builder of Python source from a template: lines, indentation, constants, compilation."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FieldType,
    Operator,
    Part,
    Reference,
    Value,
)


class ModuleSource:
    """Source of generated functions, and the global names that they use."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._done: list[str] = []
        self._lines: list[str] = []
        self._indent = ""
        self._functions = 0
        self._constants = 0

    def write(self, *lines: str) -> None:
        """Add lines at the current indentation."""
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def under(self, opening: str) -> Iterator[None]:
        """Indent the lines written inside under an opening line, if it is not empty."""
        outer = self._indent
        if opening:
            self.write(opening)
            self._indent += "    "
        yield
        self._indent = outer

    @contextmanager
    def function(self, arguments: str) -> Iterator[str]:
        """Collect the lines written inside as a separate function; yield its name."""
        outer = self._lines, self._indent
        self._functions += 1
        name = f"segment_{self._functions}"
        self._lines, self._indent = [f"def {name}({arguments}):"], "    "
        yield name
        self._done += self._lines
        self._lines, self._indent = outer

    def constant(self, value: Any) -> str:
        """Return a global name for a value that has no literal."""
        for name, known in self.names.items():
            if name.startswith("K") and known is value:
                return name
        self._constants += 1
        name = f"K{self._constants}"
        self.names[name] = value
        return name

    def compiled(self, name: str, file_name: str) -> Any:
        """Compile all functions and return the one of that name."""
        code = compile("\n".join(self._done), file_name, "exec")
        names = dict(self.names)
        # The source was generated above, with every name and value of a template as a literal.
        exec(code, names)  # noqa: S102
        return names[name]


def literal(kind: FieldType, value: Value | None) -> str:
    """Return a value as a Python literal; the bytes of a Unicode string as str."""
    if kind is FieldType.UNICODE and isinstance(value, bytes):
        return repr(value.decode())
    return repr(value)


def absent(part: Part) -> tuple[str, int] | None:
    """Return the presence map bits and null bytes of an absent part.

    None if the part is mandatory, or if its absence changes a previous value.
    """
    if isinstance(part, FastGroup):
        return ("0", 0) if part.optional else None
    if isinstance(part, Reference) or not part.optional:
        return None
    operation = (
        part.operation
        if isinstance(part, FastField)
        else (part.exponent if isinstance(part, DecimalField) else part.length.operation)
    )
    if operation.operator is Operator.CONSTANT:
        return "0", 0
    if operation.operator is Operator.DEFAULT:
        return ("0", 0) if operation.initial is None else ("1", 1)
    return ("", 1) if operation.operator in (Operator.NONE, Operator.DELTA) else None


@dataclass(frozen=True, slots=True)
class OptionalRun:
    """Adjacent optional parts, with the map bits and null bytes if all are absent."""

    parts: Many[Part]
    pattern: str
    nulls: int


def run_of(parts: Many[Part], max_length: int) -> OptionalRun:
    """Return the leading parts that may be absent together; possibly none.

    A decimal whose mantissa has a bit ends the run: the bit does not exist if the decimal is
    absent.
    """
    pattern, nulls, count = "", 0, 0
    for part in parts[:max_length]:
        found = absent(part)
        if found is None or (isinstance(part, DecimalField) and part.mantissa_bits):
            break
        pattern, nulls, count = pattern + found[0], nulls + found[1], count + 1
    return OptionalRun(parts[:count], pattern, nulls)
