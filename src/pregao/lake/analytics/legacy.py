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

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.feed.legacy.book_updates import (
    DELETE,
    EMPTY_BOOK,
    IMBALANCE,
    NEW,
    OPENING_PRICE,
    SIDES,
    TRADE,
    TRADING_STATE,
    number_of,
)
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.columns import spark_type
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.timeline import UNTOLD
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.columns import integers, nulled, prices, take
from pregao.lake.books.coverage import day_coverage
from pregao.lake.books.legacy_messages import (
    ENTRY_COLUMNS,
    SNAPSHOT_COLUMNS,
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
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.phases import TradingEvent, instrument_status, is_undefined, phase_status
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
_SUMMARY: Final = "B"
_AVERAGE: Final = "9"
_OF_SESSION: Final = (_SUMMARY, _AVERAGE, TRADE)
"""Types of the entries with what the binary feed has in one message: volume, average price, and
trades, which may state the volume."""
STATED: Final = {"volume": "states_volume", "trades": "states_trades", "vwap": "states_vwap"}
"""Columns that state which statistics of the session a row of the legacy feed has."""
_SHOWN_TYPES: Final = {
    t.LAST_TRADE_PRICE: (TRADE,),
    t.OPENING_PRICE: (OPENING_PRICE,),
    t.HIGH_PRICE: ("7",),
    t.LOW_PRICE: ("8",),
    t.EXECUTION_STATISTICS: _OF_SESSION,
}
"""Types of the entries of snapshots that are messages of a template."""
_DEFINITION: Final = max(t.SECURITY_DEFINITIONS)
LEGACY_SOURCES: Final = {
    **dict.fromkeys(_TYPES, LEGACY_ENTRIES),
    t.SECURITY_STATUS: LEGACY_STATUSES,
    t.SECURITY_GROUP_PHASE: LEGACY_STATUSES,
    _DEFINITION: LEGACY_LIST,
}
"""Templates that the legacy feed has too, and their tables."""
_INCREMENTAL: Final = Stream.INCREMENTAL.value
_KEYS: Final = STATUS_COLUMNS[:11]
_INSTRUMENT: Final = ("channel", "security_id")
_LISTED: Final = pa.schema(
    [("channel", pa.int16()), ("security_id", pa.int64()), ("symbol", pa.string()),
     ("security_group", pa.string()), ("sending_time_ns", pa.int64())]
)  # fmt: skip
_STATE: Final = pa.schema(
    [("channel", pa.int16()), ("security_id", pa.int64()), ("stream", pa.string()),
     ("sending_time_ns", pa.int64()), ("place", pa.int64()),
     ("trading_session_sub_id", pa.string()),
     ("security_trading_status", pa.string()), ("security_trading_event", pa.string())]
)  # fmt: skip

_TIMES: Final = pa.schema(
    [("channel", pa.int16()), ("event", pa.int64()), ("place", pa.int64()),
     ("security_id", pa.int64()), ("sending_time_ns", pa.int64()),
     ("capture_time_ns", pa.int64()), ("feed", pa.string()),
     ("feed_difference_ns", pa.int64()), ("capture_id", pa.string()), ("t5_ns", pa.int64()),
     ("t10_ns", pa.int64()), ("aggressor_time_ns", pa.int64())]
)  # fmt: skip

TIME_COLUMNS: Final = {
    LEGACY_ENTRIES: ENTRY_COLUMNS,
    LEGACY_STATUSES: STATUS_COLUMNS,
    LEGACY_LIST: (*_KEYS, "security_update_action"),
}
"""Columns that `legacy_times` needs of each table."""

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
    def from_inputs(inputs: InputFiles) -> PriceLevelInstruments:
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
    seconds: frozenset[int] = frozenset()
    """Channels whose times of day have no milliseconds."""

    def entries(self, rows: Any, *, only_orders: bool = False) -> EntryColumns:
        """Return the entries of the other rows; for `only_orders` see `without`."""
        own = self.without(rows, only_orders=only_orders)
        return EntryColumns(own, self.slots, seconds=self.seconds)

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
    catalogue = FileCatalog(lake)
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
        {channel: PriceLevelInstruments.from_inputs(inputs[channel]) for channel in own},
        frozenset(channel for channel in own if inputs[channel].seconds),
    )


def channels_of_levels(lake: LakeStore, date: datetime.date) -> list[int]:
    """Return the legacy feed's channels that publish price levels of any instrument on a day."""
    catalogue = FileCatalog(lake)
    binary = catalogue.binary_channels(date)
    found = []
    for channel in catalogue.channels(date):
        if channel not in binary:
            depths = PriceLevelInstruments.from_inputs(catalogue.inputs(date, channel))
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
        only_orders = template == t.MASS_DELETE_ORDERS
        return messages_of(excluded.entries(rows, only_orders=only_orders), template)

    entries = source.where(F.col("md_entry_type").isin(*_TYPES[template]))
    return _mapped(entries, ENTRY_COLUMNS, schema, entries_of)


def legacy_venue_trades(source: DataFrame, template: int, excluded: LegacyExclusions) -> DataFrame:
    """Return the trades, forwards or busts outside the electronic market, with their ``venue``."""

    def trades_of(rows: Any) -> Any:
        entries = excluded.entries(rows)
        kept = entries.trades_elsewhere(template)
        venue = pa.array(entries.venue[kept], pa.string())
        return messages_of(entries, template, kept).append_column("venue", venue)

    schema = _schema(template).append(pa.field("venue", pa.string()))
    entries = source.where(F.col("md_entry_type").isin(*_TYPES[template]))
    return _mapped(entries, ENTRY_COLUMNS, schema, trades_of)


# --- Session statistics ---


def _volumes(source: DataFrame, schema: Any, excluded: LegacyExclusions) -> DataFrame:
    """Return what each entry states of the session: volume, number of trades, average price.

    They are published independently of each other (002 §13.1); in equities the volume is that of
    the trades (§10.2). `STATED` tells which of the three a row has.
    """

    def volumes_of(rows: Any) -> Any:
        entries = excluded.entries(rows)
        return _volumes_of(entries, _of_session(entries))

    stated = pa.schema([*schema, *(pa.field(name, pa.bool_()) for name in STATED.values())])
    entries = source.where(F.col("md_entry_type").isin(*_OF_SESSION))
    return _mapped(entries, ENTRY_COLUMNS, stated, volumes_of)


def _of_session(entries: EntryColumns) -> Int64Array:
    """Return the indices of the entries that state volume, number of trades or average price."""
    stating = entries.numbers("trade_volume") != NULL
    own = np.isin(entries.type, _OF_SESSION) & ((entries.type != TRADE) | stating)
    return np.flatnonzero(own & ~entries.elsewhere)


def _volumes_of(entries: EntryColumns, kept: Int64Array) -> Any:
    kind, stands = entries.type[kept], entries.action[kept] != DELETE
    summary, average = kind == _SUMMARY, kind == _AVERAGE
    columns = {
        "trade_volume": nulled(np.where(~average, entries.numbers("trade_volume")[kept], NULL)),
        "number_of_trades": nulled(np.where(summary, entries.numbers("md_entry_size")[kept], NULL)),
        "vwap_px": prices(np.where(average & stands, entries.price[kept], NULL)),
        STATED["volume"]: pa.array(~average),
        STATED["trades"]: pa.array(summary),
        STATED["vwap"]: pa.array(average),
    }
    return pa.table({**key_columns(entries, kept), **columns})


def legacy_shown(snapshots: DataFrame, template: int, excluded: LegacyExclusions) -> DataFrame:
    """Return a template's messages in the first snapshot of each instrument.

    ``place`` is the event key that the snapshot is as of: after its LastMsgSeqNumProcessed.
    """
    sessions = template == t.EXECUTION_STATISTICS
    first = snapshots.groupBy(*_INSTRUMENT).agg(F.min("sending_time_ns").alias("first_ns"))
    shown = (
        snapshots.where(F.col("md_entry_type").isin(*_SHOWN_TYPES[template]))
        .join(first, list(_INSTRUMENT))
        .where(F.col("sending_time_ns") == F.col("first_ns"))
    )

    def shown_of(rows: Any) -> Any:
        entries = excluded.entries(rows)
        kept = _of_session(entries) if sessions else np.flatnonzero(entries.template == template)
        make = _volumes_of(entries, kept) if sessions else messages_of(entries, template, kept)
        return make.append_column("place", pa.array(_as_of(entries, excluded)[kept]))

    schema = _schema(template).append(pa.field("place", pa.int64()))
    found = _mapped(shown, SNAPSHOT_COLUMNS, schema, shown_of)
    if not sessions:
        return found
    values = {"volume": "trade_volume", "trades": "number_of_trades", "vwap": "vwap_px"}
    whole = found.groupBy(*_INSTRUMENT, "place").agg(
        F.max("trading_session_id").alias("trading_session_id"),
        *[F.max(name).alias(name) for name in values.values()],
    )
    stated = [F.col(value).isNotNull().alias(STATED[name]) for name, value in values.items()]
    return whole.select("*", *stated)


def _as_of(entries: EntryColumns, excluded: LegacyExclusions) -> Int64Array:
    """Return the event keys that snapshots are as of, by their last messages (tag 369)."""
    last = entries.numbers("last_msg_seq_num_processed", 0)
    sent, channels = entries.numbers("sending_time_ns"), entries.numbers("channel", -1)
    version = np.zeros(len(entries), np.int64)
    for channel in np.unique(channels).tolist():
        own = np.flatnonzero(channels == channel)
        slots = excluded.slots.get(channel, TimeSlots())
        version[own] = slots.held_as_of(sent[own], last[own])
    return version * EVENT_VERSION + (last + 1) * EVENT_NUMBER - 1


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
    entries = excluded.entries(rows)
    kept = np.arange(len(entries))
    codes = entries.value("security_update_action", lambda text: ord(text or "\0"), np.int64)
    actions = named(codes, names_of("SecurityUpdateAction"), kept)
    return pa.table({**key_columns(entries, kept), "security_update_action": actions})


def legacy_times(name: str, rows: Any, excluded: LegacyExclusions) -> list[Any]:
    """Return event, message, sending and capture time of a table's messages or their entries.

    ``rows`` are those of the table with `TIME_COLUMNS`. The columns are those of `_TIMES`.
    """
    if name == LEGACY_ENTRIES:
        return [_entry_times(excluded.entries(rows))]
    if name == LEGACY_LIST:
        found = [_definitions(rows.filter(pc.equal(rows["stream"], _INCREMENTAL)), excluded)]
    else:
        templates = (t.SECURITY_STATUS, t.SECURITY_GROUP_PHASE)
        found = [_statuses(rows, template, excluded) for template in templates]
    return [_message_times(own) for own in found]


def _entry_times(entries: EntryColumns) -> Any:
    """Return the times of entries: only a new order has one, when it got its queue position."""
    keys = key_columns(entries, np.arange(len(entries)))
    new = np.isin(entries.type, list(SIDES)) & (entries.action == NEW)
    again = (entries.indicator & t.RECOVERY) != 0
    keys["place"] = pa.array(integers(keys["event"]) + entries.entry)
    keys["t5_ns"] = nulled(np.where(new & ~again, entries.inserted_ns, NULL))
    keys["t10_ns"] = nulled(entries.time_ns)
    return _with_columns(keys, _TIMES)


def _message_times(messages: Any) -> Any:
    keys = dict(zip(messages.column_names, messages.columns, strict=True))
    version, number, index = (
        integers(keys[name]) for name in ("sequence_version", "sequence_number", "index_in_packet")
    )
    keys["place"] = pa.array(version * EVENT_VERSION + number * EVENT_NUMBER + index)
    if "transact_time_ns" in keys:
        keys["t5_ns"] = keys["transact_time_ns"]
    return _with_columns(keys, _TIMES)


def _with_columns(found: Mapping[str, Any], schema: Any) -> Any:
    """Return the columns of a schema, null where they are missing."""
    count = len(found["event"])
    nulls = {field.name: pa.nulls(count, field.type) for field in schema}
    return pa.table({name: found.get(name, absent) for name, absent in nulls.items()})


def legacy_states(snapshots: DataFrame, excluded: LegacyExclusions) -> DataFrame:
    """Return states of instruments and phases of their groups from snapshots (002 §11.4).

    The event is that of a state that separates an instrument from its group; null if the instrument
    follows its group. ``place`` is the event key that the snapshot is as of.
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
        undefined = pa.array([is_undefined(each) for each in status.tolist()], pa.bool_())
        event = pc.if_else(
            separate, TradingEvent.SECURITY_STATUS_CHANGE.name, pa.scalar(None, pa.string())
        )
        event = pc.if_else(undefined, UNTOLD, event)
        keys = key_columns(entries, kept)
        return pa.table(
            {
                **{name: keys[name] for name in ("channel", "security_id", "sending_time_ns")},
                "place": pa.array(_as_of(entries, excluded)),
                "stream": pa.array([Stream.SNAPSHOT.value] * len(kept), pa.string()),
                "trading_session_sub_id": named(phase, names_of("TradingSessionSubID"), kept),
                "security_trading_status": own,
                "security_trading_event": event,
            }
        )

    shown = snapshots.where(F.col("md_entry_type") == TRADING_STATE)
    names = (
        *_KEYS, "last_msg_seq_num_processed", "trading_session_sub_id", "security_trading_status",
    )  # fmt: skip
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
