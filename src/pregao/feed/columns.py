"""Messages of one template as columns: the interface that followers read.

Small records created for every message: immutable by convention, and cheap to create.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from pregao.book.update_rows import NULL

Numbers: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]


class MessageColumns(Protocol):
    """Rows of messages, by the snake_case names of their fields and key columns."""

    def __len__(self) -> int:
        """Return the number of messages."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns."""

    def numbers(self, name: str, null: int = NULL) -> Numbers:
        """Return a column of integers, dates or decimals as integers; decimals as mantissas."""

    def codes(self, name: str, known: Mapping[str, int], other: int) -> Codes:
        """Return a column of names as codes by ``known``; ``other`` for unknown names."""

    def texts(self, name: str) -> Sequence[str | None]:
        """Return a column of texts."""

    def take(self, chosen: Numbers) -> MessageColumns:
        """Return the rows at these indices, in this order."""


class ComparedColumns(MessageColumns, Protocol):
    """Columns that the audit can compare, whatever their types."""

    def take(self, chosen: Numbers) -> ComparedColumns:
        """Return the rows at these indices, in this order."""

    def followed_by(self, more: ComparedColumns) -> ComparedColumns:
        """Return these rows followed by others with the same columns."""

    def labels(self, name: str) -> Numbers:
        """Return a number for each text of a column, equal for equal texts; 0 for null."""

    def nulls(self, name: str) -> Flags:
        """Return where a column is null."""

    def unlike(self, name: str, other: ComparedColumns) -> Flags:
        """Return where a column differs from that of ``other``, row by row; null equals null."""

    def value(self, name: str, at: int) -> object:
        """Return one value in readable form."""


T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Create a data class that is frozen for the type checker only.

    Creating an instance that is frozen at run time takes four times as long, and there are several
    of these per packet.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
