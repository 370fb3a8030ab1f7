"""What an engine offers: questions in, rows as Arrow tables out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Answer(Protocol):
    """The rows of a query, not yet fetched; they are fetched once, by one of the two."""

    def first(self, limit: int) -> tuple[Any, int]:
        """The first rows, at most so many, and how many rows there are in all."""

    def rows(self) -> Any:
        """Every row."""


class Engine(Protocol):
    """Something that answers queries on a lake's tables."""

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> Answer:
        """Plan a query; a mistake in it is a sentence. Parameters are the values of its ``?``."""
