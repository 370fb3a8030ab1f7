"""Messages of one template as columns: the interface that followers and audits read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.update_rows import NULL


class MessageColumns(Protocol):
    """Rows of messages, by the snake_case names of their fields and key columns."""

    def __len__(self) -> int:
        """Return the number of messages."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns."""

    def numbers(self, name: str, null: int = NULL) -> Int64Array:
        """Return a column of integers, dates or decimals as integers; decimals as mantissas."""

    def codes(self, name: str, known: Mapping[str, int], other: int) -> Uint8Array:
        """Return a column of names as codes by ``known``; ``other`` for unknown names."""

    def texts(self, name: str) -> Sequence[str | None]:
        """Return a column of texts."""

    def take(self, chosen: Int64Array) -> MessageColumns:
        """Return the rows at these indices, in this order."""


class ComparedColumns(MessageColumns, Protocol):
    """Columns that the audit can compare, whatever their types."""

    def take(self, chosen: Int64Array) -> ComparedColumns:
        """Return the rows at these indices, in this order."""

    def followed_by(self, more: ComparedColumns) -> ComparedColumns:
        """Return these rows followed by others with the same columns."""

    def labels(self, name: str) -> Int64Array:
        """Return a number for each text of a column, equal for equal texts; 0 for null."""

    def nulls(self, name: str) -> BoolArray:
        """Return where a column is null."""

    def unlike(self, name: str, other: ComparedColumns) -> BoolArray:
        """Return where a column differs from that of ``other``, row by row; null equals null."""

    def value(self, name: str, at: int) -> object:
        """Return one value in readable form."""
