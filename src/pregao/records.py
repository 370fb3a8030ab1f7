"""Records: data classes that are cheap to create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

RecordT = TypeVar("RecordT")


@dataclass_transform(frozen_default=True)
def record(cls: type[RecordT]) -> type[RecordT]:
    """Declare a record: frozen for the type checker only, with slots and a hash of its fields.

    Creating an instance that is frozen at run time takes two to four times as long, and there are
    several per packet of the feed and per order of the engine.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
