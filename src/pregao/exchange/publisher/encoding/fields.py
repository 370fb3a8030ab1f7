"""Writers of messages from event attributes, for the fields that a schema version has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.packer import FieldSource
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings

FLAGS = "matchEventIndicator"
RPT_SEQ = "rptSeq"

WriteMessage = Callable[[Any, int, int | None], bytes]
"""Encodes an event with flags and ``rptSeq`` (None in snapshots)."""
_Convert = Callable[[Any], Any]


class FieldMapping(NamedTuple):
    """Mapping of an event attribute to the field that carries it.

    ``fields`` are names in order of preference: the first that the version has is written; if it
    has none of them the attribute is omitted. ``scale`` is the number of decimals of a fixed-point
    attribute. ``convert`` returns the wire value where the attribute differs from it.
    """

    fields: tuple[str, ...]
    attribute: str
    scale: int | None = None
    convert: _Convert | None = None


def template(schema: SchemaCodec, *names: str) -> MessageCodec | None:
    """Return the codec of the first of these messages that the version has."""
    for name in names:
        message = schema.schema.by_name.get(name)
        if message is not None:
            return schema.codec(message.id)
    return None


def known_fields(codec: MessageCodec) -> dict[str, ValueSpec]:
    """Return the fields of a message's block by name."""
    return {reading.name: reading for reading in readings(codec.message)}


def rescale(mantissa: int, scale: int, wanted: int) -> int:
    """Convert a mantissa to ``wanted`` decimals, rounding half away from zero."""
    unit = int(10 ** abs(wanted - scale))
    if wanted >= scale:
        return mantissa * unit
    rounded = (2 * abs(mantissa) + unit) // (2 * unit)
    return rounded if mantissa >= 0 else -rounded


def column_writer(codec: MessageCodec, columns: Sequence[FieldMapping]) -> WriteMessage:
    """Return a writer of a message from event attributes."""
    known = known_fields(codec)
    mapped: dict[str, FieldSource] = {}
    for column in columns:
        name = next((field for field in column.fields if field in known), None)
        if name is not None:
            mapped[name] = FieldSource(column.attribute, _conversion(column, known[name]))
    leading = [name for name in (FLAGS, RPT_SEQ) if name in known]
    pack = codec.packer(*leading, sources=mapped)
    if leading == [FLAGS, RPT_SEQ]:
        return pack
    if leading == [FLAGS]:
        return lambda item, flags, _rpt_seq: pack(item, flags)
    if leading == [RPT_SEQ]:
        return lambda item, _flags, rpt_seq: pack(item, rpt_seq)
    return lambda item, _flags, _rpt_seq: pack(item)


def _conversion(column: FieldMapping, reading: ValueSpec) -> _Convert | None:
    if column.convert is not None:
        return column.convert
    if reading.kind is ValueKind.TEXT:
        return _to_bytes
    scale = column.scale
    if scale is not None and reading.kind is ValueKind.DECIMAL and reading.scale != scale:
        wanted = reading.scale
        return lambda value: None if value is None else rescale(value, scale, wanted)
    return None


def _to_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("ascii")
