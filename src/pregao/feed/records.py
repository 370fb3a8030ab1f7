"""Small records created for every message: immutable by convention, and cheap to create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Create a data class that is frozen for the type checker only.

    Creating an instance that is frozen at run time takes four times as long, and there are several
    of these per packet.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
