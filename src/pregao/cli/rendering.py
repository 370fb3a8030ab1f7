"""Decoded messages as lines: text for people, JSON for programs, CSV by template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.cli.texts import (
    Dialect,
    column_text,
    named_texts,
    numbers_text,
    objects_text,
    time_text,
)
from pregao.sbe.model import Message
from pregao.umdf.bulk import Batch
from pregao.umdf.keys import KEY_SCHEMA, PACKET_KEY
from pregao.umdf.tables import Column, TemplateTable, columns_of

CSV_KEYS = ("channel_id", *PACKET_KEY)
"""What stands before a message's fields in CSV."""

_CHANNEL, _STREAM, _VERSION, _NUMBER, _INDEX, _CAPTURED, _SENT = range(len(KEY_SCHEMA))


@cache
def _columns(message: Message) -> tuple[Column, ...]:
    return columns_of(message)


def text_lines(batch: Batch, keys: Sequence[Any]) -> Any:
    """A line for each message: time, channel, stream, key, name, and the fields that are there."""
    place = pc.binary_join_element_wise(
        numbers_text(keys[_VERSION]),
        ":",
        pc.coalesce(numbers_text(keys[_NUMBER]), "-"),
        ".",
        numbers_text(keys[_INDEX]),
        "",
    )
    line = pc.binary_join_element_wise(
        pc.coalesce(time_text(keys[_CAPTURED]), "-"),
        numbers_text(keys[_CHANNEL]),
        keys[_STREAM].cast(pa.string()),
        place,
        batch.message.name,
        *named_texts(batch.columns.columns, _columns(batch.message)),
        " ",
        null_handling="skip",
    )
    return pc.binary_join_element_wise(line, "\n", "")


def json_lines(batch: Batch, keys: Sequence[Any]) -> Any:
    """A JSON object for each message: template, key, and the fields by their own names."""
    head = json.dumps(
        {"message": batch.message.name, "template": batch.message.id, "version": batch.version},
        separators=(",", ":"),
    )
    parts: list[Any] = [head[:-1]]
    for name, key in zip(KEY_SCHEMA.names, keys, strict=True):
        if pa.types.is_dictionary(key.type):
            parts += [f',"{name}":"', key.cast(pa.string()), '"']
        else:
            parts += [f',"{name}":', pc.coalesce(numbers_text(key), "null")]
    fields = objects_text(
        batch.columns.columns, _columns(batch.message), Dialect.JSON, len(batch.rows)
    )
    return pc.binary_join_element_wise(*parts, ',"fields":', fields, "}\n", "")


def csv_header(table: TemplateTable) -> bytes:
    """The first line of a template's CSV file."""
    names = (*CSV_KEYS, *(column.name for column in table.columns))
    return (",".join(names) + "\n").encode()


def csv_lines(table: TemplateTable, fitted: Sequence[Any], keys: Sequence[Any]) -> Any:
    """A line for each message, from arrays that fit the table."""
    texts = [numbers_text(keys[place]) for place in (_CHANNEL, _VERSION, _NUMBER)]
    for array, column in zip(fitted, table.columns, strict=True):
        texts.append(column_text(array, column, Dialect.CSV))
    filled = [pc.coalesce(text, "") for text in texts]
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*filled, ","), "\n", "")
