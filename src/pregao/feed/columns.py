"""Messages of one template as columns: what a follower asks of them, whoever holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pregao.book.rows import NULL

Numbers: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]


class MessageColumns(Protocol):
    """Rows of messages by the snake_case names of their fields and of their key."""

    def __len__(self) -> int:
        """How many messages there are."""

    @property
    def names(self) -> Sequence[str]:
        """The columns there are."""

    def numbers(self, name: str, null: int = NULL) -> Numbers:
        """A column of integers, days or decimals as numbers; decimals as their mantissas."""

    def codes(self, name: str, known: Mapping[str, int], other: int) -> Codes:
        """The numbers that the names of a column are known by; ``other`` for those not known."""

    def texts(self, name: str) -> Sequence[str | None]:
        """A column of texts."""

    def taken(self, chosen: Numbers) -> MessageColumns:
        """Some of the rows, in the order given."""


class ComparedColumns(MessageColumns, Protocol):
    """Columns that the audit can compare, whatever is in them."""

    def taken(self, chosen: Numbers) -> ComparedColumns:
        """Some of the rows, in the order given."""

    def followed_by(self, more: ComparedColumns) -> ComparedColumns:
        """These rows and behind them others of the same columns."""

    def labels(self, name: str) -> Numbers:
        """A number for each text of a column, the same for the same text; 0 for null."""

    def nulls(self, name: str) -> Flags:
        """Where a column has no value."""

    def unlike(self, name: str, other: ComparedColumns) -> Flags:
        """Where a column differs from the same column of as many other rows; null equals null."""

    def value(self, name: str, at: int) -> object:
        """One value, as people read it."""
