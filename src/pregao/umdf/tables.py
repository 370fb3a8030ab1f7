"""The table of a template: its columns over all schema versions of its messages.

The columns are those of the newest version, then those that only older versions have. A field that
had another type in an older version gets a separate column for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pregao.arrays import arrow_texts
from pregao.sbe.arrow import column_type, data_type
from pregao.sbe.model import Block, MessageTemplate, Schema, snake_case
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: name of its field, column name, type, and source."""

    name: str
    column: str
    type: Any
    reading: ValueSpec | None = None
    """None for a group and for variable-length data."""
    children: tuple[TableColumn, ...] = ()
    """The members of a record, or the fields of a group's entries."""
    repeats: bool = False
    """Whether it is a group."""
    names: tuple[str, ...] = ()
    """The names of an enumeration's values."""

    @property
    def named(self) -> bool:
        """Whether it is an enumeration."""
        return self.reading is not None and self.reading.kind is ValueKind.ENUM


def columns_of(block: Block) -> tuple[TableColumn, ...]:
    """Return the columns of a message or group, in order."""
    found = [_of_reading(reading) for reading in readings(block)]
    for group in block.groups:
        children = columns_of(group)
        name = snake_case(group.name)
        found.append(
            TableColumn(group.name, name, _list_of(children), None, children, repeats=True)
        )
    for data in block.data:
        found.append(TableColumn(data.name, snake_case(data.name), data_type(data)))
    return tuple(found)


def _of_reading(reading: ValueSpec) -> TableColumn:
    children = tuple(_of_reading(member) for member in reading.members)
    members = () if reading.enum is None else reading.enum.members
    names = tuple(member.name for member in members)
    return TableColumn(
        reading.name, reading.column, column_type(reading), reading, children, names=names
    )


def _struct_of(children: Iterable[TableColumn]) -> Any:
    return pa.struct([pa.field(child.column, child.type) for child in children])


def _list_of(children: Iterable[TableColumn]) -> Any:
    return pa.list_(pa.field("item", _struct_of(children), nullable=False))


def _merged(newer: TableColumn, older: TableColumn, suffix: str) -> TableColumn | None:
    """Return one column for both, or None if their types are incompatible."""
    if newer.repeats != older.repeats or bool(newer.children) != bool(older.children):
        return None
    if newer.children:
        children = merged_columns(newer.children, older.children, suffix)
        kind = _list_of(children) if newer.repeats else _struct_of(children)
        return replace(newer, type=kind, children=children)
    if newer.named and older.named:
        wide = max(newer.type, older.type, key=lambda kind: int(kind.index_type.bit_width))
        more = tuple(name for name in older.names if name not in newer.names)
        return replace(newer, type=wide, names=newer.names + more)
    if newer.type == older.type:
        return newer
    if pa.types.is_integer(newer.type) and pa.types.is_integer(older.type):
        wide = max(newer.type, older.type, key=lambda kind: int(kind.bit_width))
        return replace(newer, type=wide)
    return None


def merged_columns(
    newer: tuple[TableColumn, ...], older: tuple[TableColumn, ...], suffix: str
) -> tuple[TableColumn, ...]:
    """Merge columns; an older column with an incompatible type gets the suffix."""
    result = {column.column: column for column in newer}
    for column in older:
        known = result.get(column.column)
        both = column if known is None else _merged(known, column, suffix)
        if both is None:
            both = _renamed(column, suffix)
        result[both.column] = both
    return tuple(result.values())


def _renamed(column: TableColumn, suffix: str) -> TableColumn:
    return replace(column, name=f"{column.name}_{suffix}", column=f"{column.column}_{suffix}")


class TemplateTable:
    """The columns of a template's messages over several versions, with the conversions into them.

    The dictionaries of enumerations only grow, so that files can be written batch by batch.
    """

    def __init__(self, versions: Iterable[tuple[Schema, MessageTemplate]]) -> None:
        ordered = sorted(versions, key=lambda pair: pair[0].version, reverse=True)
        self.name = ordered[0][1].name
        self.template_id = ordered[0][1].id
        self.columns: tuple[TableColumn, ...] = ()
        for schema, message in ordered:
            own = columns_of(message)
            self.columns = merged_columns(self.columns, own, _suffix(schema))
        names: dict[str, _Names] = {}
        # Keyed by identity: two versions may declare the same template identically.
        self._fits = {
            id(message): _fitters(columns_of(message), self.columns, _suffix(schema), "", names)
            for schema, message in ordered
        }
        self._messages = [message for _, message in ordered]

    @property
    def schema(self) -> Any:
        """The Arrow schema of the table."""
        return pa.schema([pa.field(column.column, column.type) for column in self.columns])

    def fit(self, message: MessageTemplate, batch: Any, count: int) -> list[Any]:
        """Return the arrays of the table's columns for a batch of messages of one version."""
        return [
            pa.nulls(count, column.type) if index is None else fit(batch.column(index))
            for column, (index, fit) in zip(self.columns, self._fits[id(message)], strict=True)
        ]


def _suffix(schema: Schema) -> str:
    return f"v{schema.version}"


_Fit = Callable[[Any], Any]


def _fitters(
    sources: tuple[TableColumn, ...],
    targets: tuple[TableColumn, ...],
    suffix: str,
    path: str,
    names: dict[str, _Names],
) -> list[tuple[int | None, _Fit]]:
    """Return, for each target, the index of its source and the conversion of its arrays."""
    by_column = {target.column: target for target in targets}
    indices: dict[str, int] = {}
    for index, source in enumerate(sources):
        target = by_column[source.column]
        fits = _merged(target, source, suffix) == target
        indices[source.column if fits else f"{source.column}_{suffix}"] = index
    result: list[tuple[int | None, _Fit]] = []
    for target in targets:
        found = indices.get(target.column)
        if found is None:
            result.append((None, _same))
        else:
            inner = f"{path}.{target.column}"
            result.append((found, _fitter(sources[found], target, suffix, inner, names)))
    return result


def _fitter(
    source: TableColumn, target: TableColumn, suffix: str, path: str, names: dict[str, _Names]
) -> _Fit:
    """Return the conversion from one version's column to the table's column."""
    if target.named:
        return names.setdefault(path, _Names(target)).indexed
    if not target.children:
        return _same if source.type == target.type else lambda array: array.cast(target.type)
    parts = _fitters(source.children, target.children, suffix, path, names)
    fields = [pa.field(child.column, child.type) for child in target.children]

    def struct(array: Any) -> Any:
        members = [
            pa.nulls(len(array), child.type) if index is None else fit(array.field(index))
            for child, (index, fit) in zip(target.children, parts, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=fields, mask=mask)

    if not target.repeats:
        return struct
    return lambda array: pa.ListArray.from_arrays(
        array.offsets, struct(array.values), type=target.type
    )


def _same(array: Any) -> Any:
    return array


class _Names:
    """Dictionary of one column: the known names, then unknown numbers in order of appearance."""

    def __init__(self, column: TableColumn) -> None:
        self._type = column.type
        self._indexes = {name: index for index, name in enumerate(dict.fromkeys(column.names))}
        self._dictionary = arrow_texts(list(self._indexes))

    def indexed(self, array: Any) -> Any:
        """Return the same values, encoded with this dictionary."""
        if array.type == self._type and array.dictionary.equals(self._dictionary):
            return array
        before = len(self._indexes)
        indices = [
            self._indexes.setdefault(name, len(self._indexes))
            for name in array.dictionary.to_pylist()
        ]
        if len(self._indexes) > before:
            self._dictionary = arrow_texts(list(self._indexes))
        indexes = pa.array(indices, self._type.index_type).take(array.indices)
        return pa.DictionaryArray.from_arrays(indexes, self._dictionary)
