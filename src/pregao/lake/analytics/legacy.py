"""Trades of the legacy feed among those of the binary one.

Where the binary feed has a channel on a day, or an instrument, the legacy feed's are left out:
nothing counts twice.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pregao.lake.analytics.engine import DataFrame, F
from pregao.lake.analytics.spark_types import spark_type
from pregao.lake.books.brought import brought
from pregao.lake.books.catalogue import Catalogue
from pregao.lake.books.columns import integers, taken
from pregao.lake.books.legacy_entries import ENTRY_COLUMNS, Entries
from pregao.lake.books.legacy_messages import messages_of
from pregao.lake.books.slots import Slots
from pregao.lake.ingest import PROTOCOLS, bundled_message_tables, message_table_name
from pregao.lake.store import DATE, Lake, stored_schema
from pregao.umdf.templates import FORWARD_TRADE, TRADE, TRADE_BUST

LEGACY_TEMPLATES: Final = frozenset({TRADE, FORWARD_TRADE, TRADE_BUST})
"""What the legacy feed tells too."""
LEGACY_ENTRIES: Final = "legacy_incremental_refresh"
LEGACY_LIST: Final = "legacy_security_list"
LEGACY_PACKETS: Final = PROTOCOLS["legacy"].account_table("packets")
_TRADED: Final = "2"
_INSTRUMENT: Final = ("channel", "security_id")
_SYMBOL: Final = pa.schema(
    [("channel", pa.int16()), ("security_id", pa.int64()), ("symbol", pa.string()),
     ("sending_time_ns", pa.int64())]
)  # fmt: skip

Work = Callable[[Iterator[Any]], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the binary feed has of a day."""

    channels: frozenset[int]
    instruments: frozenset[int]
    slots: Mapping[int, Slots]
    """Of the channels that it has not: where numbers begin anew."""

    def without(self, rows: Any) -> Any:
        """The rows of what it has not."""
        channel = integers(rows.column("channel"), -1)
        security = integers(rows.column("security_id"), -1)
        twice = np.isin(channel, list(self.channels)) | np.isin(security, list(self.instruments))
        return rows if not twice.any() else taken(rows, np.flatnonzero(~twice))


def left_out(lake: Lake, date: datetime.date) -> LeftOut:
    """What of the legacy feed's day is left out."""
    catalogue = Catalogue(lake)
    channels = frozenset(catalogue.binary_channels(date))
    slots = {
        channel: brought(lake, date, channel, PROTOCOLS["legacy"]).slots
        for channel in catalogue.channels(date)
        if channel not in channels
    }
    return LeftOut(channels, catalogue.binary_instruments(date), slots)


@cache
def _schema(template: int) -> Any:
    """The columns of a template's table."""
    own = message_table_name(bundled_message_tables().templates[template].name)
    (spec,) = (spec for spec in PROTOCOLS["umdf"].tables() if spec.name == own)
    return pa.schema([field for field in stored_schema(spec.schema) if field.name != DATE])


def legacy_messages(entries: DataFrame, template: int, excluded: LeftOut) -> DataFrame:
    """The entries that are messages of a template, with the columns of its table."""
    schema = _schema(template)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = excluded.without(pa.Table.from_batches([batch]))
            found = messages_of(Entries(rows, excluded.slots), template)
            columns = [
                found.column(field.name).combine_chunks().cast(field.type)
                if field.name in found.column_names
                else pa.nulls(found.num_rows, field.type)
                for field in schema
            ]
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()

    told = entries.where(F.col("md_entry_type") == _TRADED).select(*ENTRY_COLUMNS)
    return told.mapInArrow(work, _named(schema))


def legacy_symbols(listed: DataFrame, excluded: LeftOut) -> DataFrame:
    """The instruments of the legacy feed with their symbols."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = excluded.without(pa.Table.from_batches([batch]))
            yield from rows.cast(_SYMBOL).to_batches()

    told = listed.select(*_SYMBOL.names).mapInArrow(work, _named(_SYMBOL))
    return told.groupBy(*_INSTRUMENT).agg(F.max_by("symbol", "sending_time_ns").alias("symbol"))


def _named(schema: Any) -> str:
    return ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)
