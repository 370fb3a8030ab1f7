"""FAST 1.1: template files → model → message codec → column kernel, independent of any exchange.

`load_templates` reads templates. `Decoder` and `Encoder` process the messages of a stream one at a
time; `ColumnDecoder` decodes many per call into flat columns and Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pregao.fast.codec import Decoded, Decoder, Encoder, Nested
from pregao.fast.model import (
    DecimalField,
    Field,
    Group,
    Kind,
    Operation,
    Operator,
    Part,
    Reference,
    Sequence,
    Slot,
    Template,
    Templates,
    walk,
)
from pregao.fast.xml import load_templates, templates_from_bytes, templates_from_tree

if TYPE_CHECKING:
    from pregao.fast._arrow import RowColumns
    from pregao.fast.columns import REASONS, ColumnDecoder, MessageColumns

__all__ = [
    "REASONS",
    "ColumnDecoder",
    "DecimalField",
    "Decoded",
    "Decoder",
    "Encoder",
    "Field",
    "Group",
    "Kind",
    "MessageColumns",
    "Nested",
    "Operation",
    "Operator",
    "Part",
    "Reference",
    "RowColumns",
    "Sequence",
    "Slot",
    "Template",
    "Templates",
    "load_templates",
    "templates_from_bytes",
    "templates_from_tree",
    "walk",
]

_LATE = ("REASONS", "ColumnDecoder", "MessageColumns", "RowColumns")


def __getattr__(name: str) -> Any:
    # Arrow and numba take a third of a second to import: import them only for columns.
    if name in _LATE:
        return getattr(import_module(f"{__name__}.columns"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
