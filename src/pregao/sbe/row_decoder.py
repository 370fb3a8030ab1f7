"""Decoded messages of one template: as columns, or row by row if Arrow is not installed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pregao.arrays import Int64Array, Uint8Array
from pregao.errors import DecodeError
from pregao.sbe.codec import MessageCodec
from pregao.sbe.model import MessageTemplate, Schema


@dataclass(slots=True)
class DecodedColumns:
    """Columns of the decoded messages, and indices of the rejected ones."""

    batch: Any
    """A ``pyarrow.RecordBatch``: fixed fields, then groups as lists, then data. Without Arrow, the
    values of each message by name."""
    count: int
    """Number of decoded messages; a batch without columns has no length."""
    kept: Int64Array | None
    """Indices of the decoded messages; None if all were decoded."""
    rejected: Int64Array
    """Indices of the messages that could not be decoded."""
    withheld: Counter[str] = field(default_factory=Counter)
    """Number of values that do not fit and are null (dates, optional fields), by column."""


class RowDecoder:
    """Decoder of one template by the message codec, with the interface of `ColumnDecoder`.

    It withholds and refuses no values, because rows have no limits of columns.
    """

    def __init__(self, schema: Schema, message: MessageTemplate, version: int) -> None:
        self.message = message
        self.version = version
        self._codec = MessageCodec(schema, message)

    def decode(
        self, buffer: Uint8Array, positions: Int64Array, block_lengths: Int64Array, ends: Int64Array
    ) -> DecodedColumns:
        """Decode the messages with blocks at ``positions`` and frames that end at ``ends``."""
        data, decode, version = buffer.tobytes(), self._codec.decode_body, self.version
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        rejected: list[int] = []
        extents = zip(positions.tolist(), block_lengths.tolist(), ends.tolist(), strict=True)
        for number, (position, length, end) in enumerate(extents):
            try:
                rows.append(decode(data, position, length, version, end).values)
                kept.append(number)
            except DecodeError:
                rejected.append(number)
        chosen = np.array(kept, np.int64) if rejected else None
        return DecodedColumns(rows, len(rows), chosen, np.array(rejected, np.int64))
