"""Many messages of one template decoded: as columns, or one by one where Arrow is not installed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.errors import DecodeError
from pregao.sbe.codec import MessageCodec
from pregao.sbe.model import Message, Schema

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Columns:
    """The columns of the messages that could be decoded, and which could not."""

    batch: Any
    """A ``pyarrow.RecordBatch``: fixed fields, then groups as lists, then data. Without Arrow, the
    values of each message by their names."""
    count: int
    """How many messages were decoded; a batch without columns does not tell."""
    kept: Numbers | None
    """The indexes of the decoded messages; None where all were decoded."""
    rejected: Numbers
    """The indexes of the messages left out."""
    withheld: Counter[str] = field(default_factory=Counter)
    """How many values of optional fields columns cannot hold, by column; they are null."""


class RowDecoder:
    """Decodes one template by the message codec, as `ColumnDecoder` does to columns.

    Nothing is withheld or refused because a column could not hold it.
    """

    def __init__(self, schema: Schema, message: Message, version: int) -> None:
        self.message = message
        self.version = version
        self._codec = MessageCodec(schema, message)

    def decode(
        self, buffer: Bytes, positions: Numbers, block_lengths: Numbers, ends: Numbers
    ) -> Columns:
        """Decode the messages whose blocks begin at the positions and whose frames end there."""
        data, decode, version = buffer.tobytes(), self._codec.decode_body, self.version
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        rejected: list[int] = []
        places = zip(positions.tolist(), block_lengths.tolist(), ends.tolist(), strict=True)
        for number, (position, length, end) in enumerate(places):
            try:
                rows.append(decode(data, position, length, version, end).values)
                kept.append(number)
            except DecodeError:
                rejected.append(number)
        chosen = np.array(kept, np.int64) if rejected else None
        return Columns(rows, len(rows), chosen, np.array(rejected, np.int64))
