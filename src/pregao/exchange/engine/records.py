"""Declaration of commands and events as typed records that are cheap to create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_Record = TypeVar("_Record")


@dataclass_transform(frozen_default=True)
def record(cls: type[_Record]) -> type[_Record]:
    """Declare a record: frozen for the type checker, plain slots at run time.

    The engine creates several for every order; a dataclass that is frozen at run time costs two to
    three times as much to create.
    """
    return dataclass(slots=True)(cls)
