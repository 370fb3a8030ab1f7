"""Generated functions for one layout: a builder of Python source, and ``struct`` formats.

Functions are compiled on first use. The formats are those of blocks of fixed fields, and of numbers
of headers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from pregao.sbe.model import LengthField
from pregao.sbe.value_specs import ValueKind, ValueSpec


class FunctionSource:
    """Source of one function, and the objects that it refers to."""

    def __init__(self, title: str, arguments: str) -> None:
        self._title = title
        self._lines = [f"def function({arguments}):"]
        self._objects: dict[str, Any] = {}
        self._depth = 1

    def add(self, *lines: str) -> None:
        """Add lines at the current indentation."""
        self._lines.extend("    " * self._depth + line for line in lines)

    def open(self, line: str) -> None:
        """Add a line and indent the following ones."""
        self.add(line)
        self._depth += 1

    def close(self, line: str | None = None) -> None:
        """Dedent; the line, if any, opens a new block at that indentation."""
        self._depth -= 1
        if line is not None:
            self.open(line)

    def name(self, thing: Any) -> str:
        """Return the global name of an object in the function."""
        for name, known in self._objects.items():
            if known is thing:
                return name
        name = f"k{len(self._objects)}"
        self._objects[name] = thing
        return name

    def compiled(self) -> Callable[..., Any]:
        """Compile and return the function."""
        names = dict(self._objects)
        # Values from a schema file are in the source as literals only (``repr``).
        exec(_code("\n".join(self._lines), self._title), names)  # noqa: S102
        function: Callable[..., Any] = names["function"]
        return function


@lru_cache(maxsize=1024)
def _code(text: str, title: str) -> CodeType:
    """Compile a source; cached, because equal layouts have equal sources."""
    return compile(text, f"<{title}>", "exec")


def unpacking(variables: list[str], value: str) -> str:
    """Return a line that unpacks a sequence into variables."""
    return f"[{', '.join(variables)}] = {value}"


class ComputedDict(dict[Any, Any]):
    """Mapping with known results; a function computes those of other keys."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[Any], Any], known: Mapping[Any, Any]) -> None:
        super().__init__(known)
        self._ask = ask

    def __missing__(self, question: Any) -> Any:
        return self._ask(question)


class BoundedCache(ComputedDict):
    """Cache of a function's results; it is cleared when it reaches its limit.

    Prices, dates, texts and names repeat, and creating them is the most expensive part of decoding
    a message. Only for keys that equal no key of another type, as 1 and True do.
    """

    __slots__ = ("_limit",)

    def __init__(self, ask: Callable[[Any], Any], limit: int = 4096) -> None:
        super().__init__(ask, {})
        self._limit = limit

    def __missing__(self, question: Any) -> Any:
        answer = self._ask(question)
        if len(self) >= self._limit:
            self.clear()  # a sender of ever new values must not exhaust memory
        self[question] = answer
        return answer


def layout_format(readings: Sequence[ValueSpec], block_length: int = 0) -> str:
    """Return the ``struct`` format of the leaves of readings, padded to a block's length.

    It has numbers in order, and padding for gaps. The caller prepends the byte order and anything
    before the block.
    """
    parts: list[str] = []
    position = 0
    for reading in readings:
        for leaf in reading.leaves:
            if leaf.offset > position:
                parts.append(f"{leaf.offset - position}x")
            if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
                parts.append(f"{leaf.size}s")
            elif leaf.kind is ValueKind.NUMBERS:
                parts.append(f"{leaf.length}{leaf.primitive.code}")
            else:
                parts.append(leaf.primitive.code)
            position = leaf.end
    if block_length > position:
        parts.append(f"{block_length - position}x")
    return "".join(parts)


def length_struct(field: LengthField, byte_order: str) -> struct.Struct:
    """Return the ``struct`` of a number of a header."""
    return struct.Struct(byte_order + field.primitive.code)
