"""Functions that are written as Python source for one layout and compiled when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any


class Source:
    """The source of one function, and the objects that it names."""

    def __init__(self, title: str, arguments: str) -> None:
        self._title = title
        self._lines = [f"def function({arguments}):"]
        self._objects: dict[str, Any] = {}
        self._depth = 1

    def add(self, *lines: str) -> None:
        """Write lines at the present depth."""
        self._lines.extend("    " * self._depth + line for line in lines)

    def open(self, line: str) -> None:
        """Write a line, and what follows one step further in."""
        self.add(line)
        self._depth += 1

    def close(self, line: str | None = None) -> None:
        """Go one step out; the line, if any, opens a new part at that depth."""
        self._depth -= 1
        if line is not None:
            self.open(line)

    def name(self, thing: Any) -> str:
        """The name under which the function finds an object."""
        for name, known in self._objects.items():
            if known is thing:
                return name
        name = f"k{len(self._objects)}"
        self._objects[name] = thing
        return name

    def compiled(self) -> Callable[..., Any]:
        """The function."""
        names = dict(self._objects)
        # What comes from a schema file stands in the source as literals only (``repr``).
        exec(_code("\n".join(self._lines), self._title), names)  # noqa: S102
        function: Callable[..., Any] = names["function"]
        return function


@lru_cache(maxsize=1024)
def _code(text: str, title: str) -> CodeType:
    """Equal layouts have equal sources: the many publishers of a test compile them once."""
    return compile(text, f"<{title}>", "exec")


def unpacking(variables: list[str], value: str) -> str:
    """A line that takes a sequence apart into variables."""
    return f"[{', '.join(variables)}] = {value}"


class Asked(dict[Any, Any]):
    """Answers that are known, by their questions; for another question a function is asked."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[Any], Any], known: Mapping[Any, Any]) -> None:
        super().__init__(known)
        self._ask = ask

    def __missing__(self, question: Any) -> Any:
        return self._ask(question)


class Remembered(Asked):
    """Answers that are remembered for the next time; all are forgotten when they become many.

    Prices, dates, texts and names come again and again, and making them is the dearest part of a
    message. Only for questions that are equal in no other type, as 1 and True are.
    """

    __slots__ = ("_limit",)

    def __init__(self, ask: Callable[[Any], Any], limit: int = 4096) -> None:
        super().__init__(ask, {})
        self._limit = limit

    def __missing__(self, question: Any) -> Any:
        answer = self._ask(question)
        if len(self) >= self._limit:
            self.clear()  # a sender of ever new values must not fill the memory
        self[question] = answer
        return answer
