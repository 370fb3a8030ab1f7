"""Simple Binary Encoding 1.0: XML → schema model → message codec → column kernels.

`load_schema` reads a schema. `SchemaCodec` decodes and encodes single messages; `ColumnDecoder`
decodes many messages of one template into Arrow arrays. `readings` maps fields to typed values.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pregao.sbe._packer import Taken
from pregao.sbe.codec import Decoded, HeaderCodec, MessageCodec, MessageHeader, SchemaCodec
from pregao.sbe.model import (
    LITTLE_ENDIAN_FRAME,
    PRIMITIVES,
    Block,
    Choice,
    Composite,
    Data,
    Dimension,
    EncodedType,
    EnumMember,
    EnumType,
    Field,
    Group,
    Member,
    Message,
    Nature,
    Presence,
    Primitive,
    Schema,
    SetType,
    Type,
    blocks,
)
from pregao.sbe.names import snake_case
from pregao.sbe.values import Reading, ValueKind, beyond_columns, readings
from pregao.sbe.xml import load_schema, schema_from_bytes, schema_from_tree, template
from pregao.xml_tree import Element, parse_tree, read_tree, schema_error

if TYPE_CHECKING:
    from pregao.sbe.arrow import block_schema, column_type, data_type, widened
    from pregao.sbe.columns import ColumnDecoder
    from pregao.sbe.decoded import Columns

__all__ = [
    "LITTLE_ENDIAN_FRAME",
    "PRIMITIVES",
    "Block",
    "Choice",
    "ColumnDecoder",
    "Columns",
    "Composite",
    "Data",
    "Decoded",
    "Dimension",
    "Element",
    "EncodedType",
    "EnumMember",
    "EnumType",
    "Field",
    "Group",
    "HeaderCodec",
    "Member",
    "Message",
    "MessageCodec",
    "MessageHeader",
    "Nature",
    "Presence",
    "Primitive",
    "Reading",
    "Schema",
    "SchemaCodec",
    "SetType",
    "Taken",
    "Type",
    "ValueKind",
    "beyond_columns",
    "block_schema",
    "blocks",
    "column_type",
    "data_type",
    "load_schema",
    "parse_tree",
    "read_tree",
    "readings",
    "schema_error",
    "schema_from_bytes",
    "schema_from_tree",
    "snake_case",
    "template",
    "widened",
]

_LATE = {
    **dict.fromkeys(("block_schema", "column_type", "data_type", "widened"), "arrow"),
    "ColumnDecoder": "columns",
    "Columns": "decoded",
}


def __getattr__(name: str) -> Any:
    # Arrow and numba take a third of a second to import: import them only for columns.
    if name in _LATE:
        return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
