"""How the market's commands and events are declared: typed records that cost little to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_Record = TypeVar("_Record")


@dataclass_transform(frozen_default=True)
def record(cls: type[_Record]) -> type[_Record]:
    """Declare a record: frozen for the type checker, plain slots while running.

    The engine makes several of them for every order; a dataclass that is frozen at run time
    costs two to three times as much to build.
    """
    return dataclass(slots=True)(cls)
