"""Tables of the legacy feed as messages of the binary one, as input of the same analytics.

Each entry is the equivalent binary message; each message of the legacy feed is an event. Channels
and instruments that the binary feed has on a day are excluded from the legacy feed's, so that
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
import pyarrow.compute as pc

from pregao.book.update_rows import NULL
from pregao.feed.legacy.book_updates import (
    EMPTY_BOOK,
    IMBALANCE,
    NEW,
    OPENING_PRICE,
    SIDES,
    TRADE,
    TRADING_STATE,
    number_of,
)
from pregao.lake.analytics.engine import DataFrame, F, Window, spark_type
from pregao.lake.analytics.timeline import UNTOLD
from pregao.lake.books.catalog import FileCatalogue
from pregao.lake.books.columns import integers, nulled, prices, take
from pregao.lake.books.coverage import day_coverage
from pregao.lake.books.legacy_messages import (
    ENTRY_COLUMNS,
    EntryColumns,
    key_columns,
    messages_of,
    named,
    names_of,
    or_null,
)
from pregao.lake.books.legacy_reader import STATUS_COLUMNS, LegacyReader, group_text, statuses_of
from pregao.lake.books.legacy_versions import TimeSlots
from pregao.lake.books.reader import INSTRUMENTS, InputFiles, SecurityRange
from pregao.lake.ingest.protocols.umdf import bundled_message_tables, message_table_name
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf import templates as t
from pregao.umdf.keys import MESSAGE_KEY
from pregao.umdf.phases import TradingEvent, instrument_status, phase_status
from pregao.umdf.streams import Stream

LEGACY_ENTRIES: Final = "legacy_incremental_refresh"
LEGACY_SNAPSHOTS: Final = "legacy_snapshot_full_refresh"
LEGACY_LIST: Final = "legacy_security_list"
LEGACY_STATUSES: Final = "legacy_security_status"
LEGACY_PACKETS: Final = PROTOCOLS["legacy"].account_table("packets")
LEGACY_TABLES: Final = (
    LEGACY_ENTRIES, LEGACY_SNAPSHOTS, LEGACY_LIST, LEGACY_STATUSES, LEGACY_PACKETS,
)  # fmt: skip
_TYPES: Final = {
    t.TRADE: (TRADE,),
    t.FORWARD_TRADE: (TRADE,),
    t.TRADE_BUST: (TRADE,),
    t.OPENING_PRICE: (OPENING_PRICE,),
    t.THEORETICAL_OPENING_PRICE: (OPENING_PRICE,),
    t.AUCTION_IMBALANCE: (IMBALANCE,),
    t.HIGH_PRICE: ("7",),
    t.LOW_PRICE: ("8",),
    t.EXECUTION_STATISTICS: ("B",),
    t.MASS_DELETE_ORDERS: tuple(SIDES),
    t.EMPTY_BOOK: (EMPTY_BOOK,),
    t.CHANNEL_RESET: (EMPTY_BOOK,),
}
"""Types of the entries that are messages of a template."""
_AVERAGE: Final = "9"
"""Average price of a session, which the binary feed publishes with the volume."""
_DEFINITION: Final = max(t.SECURITY_DEFINITIONS)
LEGACY_SOURCES: Final = {
    **dict.fromkeys(_TYPES, LEGACY_ENTRIES),
    t.SECURITY_STATUS: LEGACY_STATUSES,
    t.SECURITY_GROUP_PHASE: LEGACY_STATUSES,
    _DEFINITION: LEGACY_LIST,
}
"""Templates that the legacy feed has too, and their tables."""
_KEYS: Final = STATUS_COLUMNS[:11]
_INSTRUMENT: Final = ("channel", "security_id")
_LISTED: Final = pa.schema(
    [("channel", pa.int16()), ("security_id", pa.int64()), ("symbol", pa.string()),
     ("security_group", pa.string()), ("sending_time_ns", pa.int64())]
)  # fmt: skip
_STATE: Final = pa.schema(
    [("channel", pa.int16()), ("security_id", pa.int64()), ("stream", pa.string()),
     ("sending_time_ns", pa.int64()), ("trading_session_sub_id", pa.string()),
     ("security_trading_status", pa.string()), ("security_trading_event", pa.string())]
)  # fmt: skip

_TIMES: Final = pa.schema(
    [("channel", pa.int16()), ("event", pa.int64()), ("place", pa.int64()),
     ("security_id", pa.int64()), ("sending_time_ns", pa.int64()),
     ("capture_time_ns", pa.int64()), ("feed", pa.string()),
     ("feed_difference_ns", pa.int64()), ("capture_id", pa.string()), ("t5_ns", pa.int64()),
     ("t10_ns", pa.int64()), ("aggressor_time_ns", pa.int64())]
)  # fmt: skip

Make = Callable[[Any], Any]
"""Converts rows to a table."""


# --- Exclusions ---


@dataclass(frozen=True, slots=True)
class PriceLevelInstruments:
    """Instruments of a channel published by price levels, and those published by orders."""

    levels: frozenset[int]
    orders: frozenset[int]
    usually_levels: bool
    """Whether an instrument that is in neither has price levels."""

    @staticmethod
    def of(inputs: InputFiles) -> PriceLevelInstruments:
        """Return those of a channel's day."""
        levels = frozenset(each for each, depth in inputs.depths.items() if depth)
        return PriceLevelInstruments(
            levels, frozenset(inputs.depths) - levels, inputs.usual_depth != 0
        )


@dataclass(frozen=True, slots=True)
class LegacyExclusions:
    """Exclusions of a day, and facts about the rest."""

    channels: frozenset[int]
    instruments: frozenset[int]
    groups: frozenset[tuple[int, str]]
    """Groups all of whose instruments are excluded, with their channel."""
    slots: Mapping[int, TimeSlots]
    """Time slots and restarts of numbers of the channels that are not excluded."""
    depths: Mapping[int, PriceLevelInstruments]

    def without(self, rows: Any, *, only_orders: bool = False) -> Any:
        """Return the other rows; with `only_orders`, those of instruments published by orders."""
        channel = integers(rows.column("channel"), -1)
        security = integers(rows.column("security_id"), -1)
        excluded = np.isin(channel, list(self.channels)) | np.isin(security, list(self.instruments))
        if only_orders:
            for number, depths in self.depths.items():
                known = depths.orders if depths.usually_levels else depths.levels
                listed = np.isin(security, list(known))
                excluded |= (channel == number) & (~listed if depths.usually_levels else listed)
        return rows if not excluded.any() else take(rows, np.flatnonzero(~excluded))


def left_out(lake: LakeStore, date: datetime.date) -> LegacyExclusions:
    """Return the exclusions of the legacy feed's day."""
    catalogue = FileCatalogue(lake)
    channels = frozenset(catalogue.binary_channels(date))
    own = [channel for channel in catalogue.channels(date) if channel not in channels]
    inputs = {channel: catalogue.inputs(date, channel) for channel in own}
    instruments = catalogue.binary_instruments(date)
    groups = frozenset[tuple[int, str]]()
    if instruments:
        groups = frozenset(
            (channel, group)
            for channel in own
            for group in _groups_without(lake, inputs[channel], instruments)
        )
    protocol = PROTOCOLS["legacy"]
    return LegacyExclusions(
        channels,
        instruments,
        groups,
        {channel: day_coverage(lake, date, channel, protocol).slots for channel in own},
        {channel: PriceLevelInstruments.of(inputs[channel]) for channel in own},
    )


def channels_of_levels(lake: LakeStore, date: datetime.date) -> list[int]:
    """Return the legacy feed's channels that publish price levels of any instrument on a day."""
    catalogue = FileCatalogue(lake)
    binary = catalogue.binary_channels(date)
    found = []
    for channel in catalogue.channels(date):
        if channel not in binary:
            depths = PriceLevelInstruments.of(catalogue.inputs(date, channel))
            if depths.levels or depths.usually_levels:
                found.append(channel)
    return found


def _groups_without(lake: LakeStore, inputs: InputFiles, instruments: frozenset[int]) -> set[str]:
    """Return the groups of a channel all of whose instruments are among the given ones."""
    found: dict[str, set[int]] = {}
    every = InputFiles(inputs.day, inputs.channel, inputs.tables, inputs.files, inputs.protocol)
    names = ["security_id", "security_group"]
    for rows in LegacyReader(lake.location, every).read(INSTRUMENTS, names, SecurityRange()):
        groups = rows.column("security_group").to_pylist()
        for security, group in zip(integers(rows.column("security_id")), groups, strict=True):
            found.setdefault(group, set()).add(int(security))
    return {group for group, members in found.items() if group and members <= instruments}


@cache
def _schema(template: int) -> Any:
    """Return the columns of a template's table as declared: Spark accepts no smaller decimals."""
    own = message_table_name(bundled_message_tables().templates[template].name)
    (spec,) = (spec for spec in PROTOCOLS["umdf"].tables() if spec.name == own)
    return pa.schema([field for field in spec.schema.remove_metadata() if field.name != DATE])


# --- Messages ---


def legacy_messages(source: DataFrame, template: int, excluded: LegacyExclusions) -> DataFrame:
    """Return the rows of a table that are messages of a template, with the columns of its table."""
    schema = _schema(template)
    if template == _DEFINITION:
        listed = source.where(F.col("stream") == Stream.INCREMENTAL.value)
        names = (*_KEYS, "security_update_action")
        return _mapped(listed, names, schema, lambda rows: _definitions(rows, excluded))
    if template in (t.SECURITY_STATUS, t.SECURITY_GROUP_PHASE):
        return _mapped(
            source, STATUS_COLUMNS, schema, lambda rows: _statuses(rows, template, excluded)
        )

    if template == t.EXECUTION_STATISTICS:
        return _volumes(source, schema, excluded)

    def entries_of(rows: Any) -> Any:
        own = excluded.without(rows, only_orders=template == t.MASS_DELETE_ORDERS)
        return messages_of(EntryColumns(own, excluded.slots), template)

    entries = source.where(F.col("md_entry_type").isin(*_TYPES[template]))
    return _mapped(entries, ENTRY_COLUMNS, schema, entries_of)


def _volumes(source: DataFrame, schema: Any, excluded: LegacyExclusions) -> DataFrame:
    """Return the session volumes, with the average price that follows each."""

    def entries_of(rows: Any) -> Any:
        entries = EntryColumns(excluded.without(rows), excluded.slots)
        kept = np.flatnonzero(~entries.elsewhere)
        average = entries.type[kept] == _AVERAGE
        found = messages_of(entries, t.EXECUTION_STATISTICS, kept)
        price = prices(np.where(average, entries.price[kept], NULL))
        return found.append_column("vwap_px", price).append_column("average", pa.array(average))

    types = (*_TYPES[t.EXECUTION_STATISTICS], _AVERAGE)
    entries_of_volume = source.where(F.col("md_entry_type").isin(*types))
    both = _mapped(
        entries_of_volume, ENTRY_COLUMNS, schema.append(pa.field("average", pa.bool_())), entries_of
    )
    in_order = Window.partitionBy(*_INSTRUMENT).orderBy(*MESSAGE_KEY)
    following = F.lead("vwap_px").over(in_order)
    return both.withColumn("vwap_px", following).where(~F.col("average")).drop("average")


def _statuses(rows: Any, template: int, excluded: LegacyExclusions) -> Any:
    own = statuses_of(excluded.without(rows), template, excluded.slots)
    if template == t.SECURITY_GROUP_PHASE:
        pairs = zip(own["channel"].to_pylist(), own["security_group"].to_pylist(), strict=True)
        return own.filter(pa.array([pair not in excluded.groups for pair in pairs], pa.bool_()))
    event = own["security_trading_event"].cast(pa.string())
    at = own.column_names.index("security_trading_event")
    has_status = pc.is_valid(own["security_trading_status"])
    without_event = pc.and_(pc.is_null(event), has_status)
    return own.set_column(at, "security_trading_event", pc.if_else(without_event, UNTOLD, event))


def _definitions(rows: Any, excluded: LegacyExclusions) -> Any:
    entries = EntryColumns(excluded.without(rows), excluded.slots)
    kept = np.arange(len(entries))
    codes = entries.value("security_update_action", lambda text: ord(text or "\0"), np.int64)
    actions = named(codes, names_of("SecurityUpdateAction"), kept)
    return pa.table({**key_columns(entries, kept), "security_update_action": actions})


def legacy_times(source: DataFrame, excluded: LegacyExclusions) -> DataFrame:
    """Return event, message, sending and capture time of each entry, and its event.

    Only a new order has an event time: when it got its queue position.
    """

    def times_of(rows: Any) -> Any:
        entries = EntryColumns(excluded.without(rows), excluded.slots)
        kept = np.arange(len(entries))
        keys = key_columns(entries, kept)
        new = np.isin(entries.type, list(SIDES)) & (entries.action == NEW)
        again = (entries.indicator & t.RECOVERY) != 0
        happened = np.where(new & ~again, entries.inserted_ns, NULL)
        event_key = integers(keys["event"]) + entries.entry
        return pa.table(
            {
                **{name: keys[name] for name in _TIMES.names if name in keys},
                "place": pa.array(event_key),
                "t5_ns": nulled(happened),
                "t10_ns": nulled(entries.time_ns),
            }
        )

    return _mapped(source, ENTRY_COLUMNS, _TIMES, times_of)


def legacy_states(snapshots: DataFrame, excluded: LegacyExclusions) -> DataFrame:
    """Return states of instruments and phases of their groups from snapshots (002 §11.4).

    The event is that of a state that separates an instrument from its group; null if the instrument
    follows its group.
    """

    def states_of(rows: Any) -> Any:
        entries = EntryColumns(excluded.without(rows))
        kept = np.arange(len(entries))
        phase = entries.value(
            "trading_session_sub_id", lambda text: or_null(number_of(text)), np.int64
        )
        status = entries.numbers("security_trading_status")
        follows = [
            instrument_status(own) is phase_status(group)
            for own, group in zip(status.tolist(), phase.tolist(), strict=True)
        ]
        own = named(status, names_of("SecurityTradingStatus"), kept)
        separate = pc.and_(pc.is_valid(own), pa.array(~np.array(follows, np.bool_)))
        event = pc.if_else(
            separate, TradingEvent.SECURITY_STATUS_CHANGE.name, pa.scalar(None, pa.string())
        )
        keys = key_columns(entries, kept)
        return pa.table(
            {
                **{name: keys[name] for name in ("channel", "security_id", "sending_time_ns")},
                "stream": pa.array([Stream.SNAPSHOT.value] * len(kept), pa.string()),
                "trading_session_sub_id": named(phase, names_of("TradingSessionSubID"), kept),
                "security_trading_status": own,
                "security_trading_event": event,
            }
        )

    shown = snapshots.where(F.col("md_entry_type") == TRADING_STATE)
    names = (*_KEYS, "trading_session_sub_id", "security_trading_status")
    return _mapped(shown, names, _STATE, states_of)


def legacy_instruments(listed: DataFrame, excluded: LegacyExclusions) -> DataFrame:
    """Return the instruments of the legacy feed, with symbols and groups by the last definition."""

    def listed_of(rows: Any) -> Any:
        own = excluded.without(rows)
        at = own.column_names.index("security_group")
        return own.set_column(at, "security_group", group_text(own))

    definitions = _mapped(listed, _LISTED.names, _LISTED, listed_of)
    last = F.max_by(F.struct("symbol", "security_group"), "sending_time_ns").alias("last")
    return definitions.groupBy(*_INSTRUMENT).agg(last).select(*_INSTRUMENT, "last.*")


def _mapped(frame: DataFrame, names: Any, schema: Any, make: Make) -> DataFrame:
    """Convert some columns of a frame, batch by batch, to the columns of a schema."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            found = make(pa.Table.from_batches([batch]))
            columns = [
                found.column(field.name).combine_chunks().cast(field.type)
                if field.name in found.column_names
                else pa.nulls(found.num_rows, field.type)
                for field in schema
            ]
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()

    text = ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)
    return frame.select(*names).mapInArrow(work, text)
