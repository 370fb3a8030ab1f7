"""FAST 1.1: template files → model → message codec → column kernel; nothing of an exchange in it.

Templates are read by `load_templates`. `Decoder` and `Encoder` read and write the messages of a
stream one at a time.
"""

from __future__ import annotations

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
)
from pregao.fast.xml import load_templates, templates_from_bytes, templates_from_tree

__all__ = [
    "DecimalField",
    "Decoded",
    "Decoder",
    "Encoder",
    "Field",
    "Group",
    "Kind",
    "Nested",
    "Operation",
    "Operator",
    "Part",
    "Reference",
    "Sequence",
    "Slot",
    "Template",
    "Templates",
    "load_templates",
    "templates_from_bytes",
    "templates_from_tree",
]
