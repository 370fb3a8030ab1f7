"""Tables of a lake as the engine reads them, one day at a time."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pregao.lake.analytics.engine import Column, DataFrame, F
from pregao.lake.analytics.legacy import (
    LEGACY_ENTRIES,
    LEGACY_LIST,
    LEGACY_PACKETS,
    LEGACY_SNAPSHOTS,
    LEGACY_SOURCES,
    LegacyExclusions,
    left_out,
    legacy_instruments,
    legacy_messages,
    legacy_shown,
    legacy_states,
    legacy_venue_trades,
)
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.ingest.protocols.umdf import bundled_message_tables, message_table_name
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.streams import ONLY_SNAPSHOT, Stream
from pregao.umdf.templates import (
    DELETED,
    IMPLIED,
    IMPLIED_SINCE,
    RECOVERY,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SEQUENCE,
    SEQUENCE_RESET,
    SNAPSHOT_HEADER,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTRUMENTS = "instruments"
INSTRUMENT = ("channel", "security_id")
"""Key of an instrument: two channels may have the same security ID."""


def message_table(template: int) -> str:
    """Return the name of a template's table."""
    return message_table_name(bundled_message_tables().templates[template].name)


def incremental_templates() -> tuple[int, ...]:
    """Return the templates of numbered messages on the incremental stream."""
    outside = {SEQUENCE, SEQUENCE_RESET, *ONLY_SNAPSHOT}
    return tuple(sorted(set(bundled_message_tables().templates) - outside))


def event_key() -> Column:
    """Return the event key of a message: a number that compares with event numbers.

    An event's number is the key of its first message.
    """
    return (
        F.col("sequence_version").cast("bigint") * EVENT_VERSION
        + F.col("sequence_number") * EVENT_NUMBER
        + F.col("index_in_packet")
    )


def bit(column: str, mask: int) -> Column:
    """Whether any bit of a mask is set in a column."""
    return F.col(column).bitwiseAND(mask) != 0


def is_recovery() -> Column:
    """Whether the message was resent to restore a book."""
    return F.coalesce(bit("match_event_indicator", RECOVERY), F.lit(False))


def withdrawn() -> Column:
    """Whether the message withdraws a statistic."""
    return F.col("md_update_action").isin(*sorted(DELETED))


def one_name(column: str, names: Mapping[str, str]) -> Column:
    """Return a column of names in which equal values of all schema versions have one name."""
    found = F.col(column)
    for other, name in names.items():
        if other != name:
            found = F.when(F.col(column) == other, F.lit(name)).otherwise(found)
    return found


def files_by_day(lake: LakeStore, name: str) -> dict[datetime.date, list[str]]:
    """Return the files of a table by day."""
    found: dict[datetime.date, list[str]] = {}
    actions = pa.table(lake.delta(name).get_add_actions(flatten=True))
    for path, date in zip(
        actions["path"].to_pylist(), actions[f"partition.{DATE}"].to_pylist(), strict=True
    ):
        found.setdefault(date, []).append(path)
    return found


def dates_with_data(lake: LakeStore) -> list[datetime.date]:
    """Return the days with packets, of either feed."""
    present = set(lake.table_names()).intersection(("packets", LEGACY_PACKETS))
    return sorted({day for name in present for day in files_by_day(lake, name)})


class LakeTables:
    """Tables of a lake, each opened once; later ingests are not visible."""

    def __init__(self, spark: SparkSession | LocalSession, lake: LakeStore) -> None:
        self.spark: Any = spark
        self.lake = lake
        self._names = frozenset(lake.table_names())
        self._frames: dict[tuple[str, datetime.date | None], DataFrame] = {}
        self._files: dict[str, dict[datetime.date, list[str]]] = {}
        self._kept: list[DataFrame] = []
        self._once: dict[Hashable, DataFrame] = {}

    def keep(self, frame: DataFrame) -> DataFrame:
        """Evaluate the rows once, regardless of the number of uses, until `release`."""
        self._kept.append(frame.persist())
        return self._kept[-1]

    def once(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """Return the frame of a name, built at its first use and cached until `release`."""
        if name not in self._once:
            self._once[name] = make()
        return self._once[name]

    def release(self) -> None:
        """Drop the cached rows."""
        self._once.clear()
        while self._kept:
            self._kept.pop().unpersist()
        if isinstance(self.spark, LocalSession):
            self.spark.release()

    def day(self, date: datetime.date) -> LakeDay:
        """Return one day of all tables."""
        return LakeDay(self, date)

    def names(self, beginning: str) -> list[str]:
        """Return the tables whose name has this prefix."""
        return sorted(name for name in self._names if name.startswith(beginning))

    def forget(self, name: str) -> None:
        """Reopen a table at its next use, because it was changed."""
        self._names = frozenset(self.lake.table_names())
        self._frames = {key: frame for key, frame in self._frames.items() if key[0] != name}
        self._files.pop(name, None)

    def frame(self, name: str, date: datetime.date | None = None) -> DataFrame:
        """Return all rows of a table, or those of a day."""
        if isinstance(self.spark, LocalSession):
            # Skips the files of other days.
            if (name, date) not in self._frames:
                self._frames[name, date] = cast("DataFrame", self.spark.table(name, date))
            return self._frames[name, date]
        if (name, None) not in self._frames:
            from pregao.lake.sql.spark_tables import table_frame  # requires PySpark

            self._frames[name, None] = table_frame(self.lake, name, self.spark)
        rows = self._frames[name, None]
        return rows if date is None else rows.where(F.col(DATE) == F.lit(date))

    def files(self, name: str) -> dict[datetime.date, list[str]]:
        """Return the files of a table by day; none if the table does not exist."""
        if name not in self._names:
            return {}
        if name not in self._files:
            self._files[name] = files_by_day(self.lake, name)
        return self._files[name]

    @cached_property
    def _before_implied(self) -> list[str]:
        """Captures with messages of versions in which the implied bit had another meaning."""
        rows = self.lake.delta("ingests").to_pyarrow_table(
            columns=["capture_id", "schema_versions"]
        )
        return [
            row["capture_id"]
            for row in rows.to_pylist()
            if any(version < IMPLIED_SINCE for version in row["schema_versions"] or ())
        ]

    def is_implied(self, messages: DataFrame) -> Column:
        """Whether it is an implied order; null where the schema version has no bit for it.

        Rows of lakes without the version column use the version of their capture.
        """
        flagged = by_capture = bit("match_event_indicator", IMPLIED)
        if self._before_implied:
            by_capture = F.when(~F.col("capture_id").isin(self._before_implied), flagged)
        if "schema_version" not in messages.columns:
            return by_capture
        version = F.col("schema_version")
        return F.when(version.isNull(), by_capture).when(version >= IMPLIED_SINCE, flagged)


class LakeDay:
    """One day of a lake's tables."""

    def __init__(self, tables: LakeTables, date: datetime.date) -> None:
        self.tables = tables
        self.date = date

    @property
    def spark(self) -> Any:
        """Session in which the tables are open: Spark's or the local one."""
        return self.tables.spark

    def has(self, name: str) -> bool:
        """Whether a table has rows of this day."""
        return self.date in self.tables.files(name)

    def table(self, name: str) -> DataFrame:
        """Return a table's rows of this day."""
        return self.tables.frame(name, self.date)

    def messages(self, template: int) -> DataFrame:
        """Return a template's messages of the incremental stream, with their event keys."""
        found, older = self.binary_messages(template), self.legacy_messages(template)
        return found if older is None else found.unionByName(older, allowMissingColumns=True)

    def binary_messages(self, template: int) -> DataFrame:
        """Return those of the binary feed."""
        found = self.table(message_table(template))
        own = found.where(F.col("stream") == Stream.INCREMENTAL.value)
        return own.withColumn("place", event_key())

    def legacy_messages(self, template: int) -> DataFrame | None:
        """Return those of the legacy feed that the binary feed lacks; None without any."""
        source = LEGACY_SOURCES.get(template)
        if source is None or not self.has(source):
            return None
        found = self.tables.once(
            (self.date, template),
            lambda: legacy_messages(self.table(source), template, self.left_out),
        )
        return found.withColumn("place", event_key())

    def venue_trades(self, template: int) -> DataFrame:
        """Return the trades, forwards or busts outside the electronic market, with ``venue``.

        Only the legacy feed has any.
        """
        source = LEGACY_SOURCES[template]
        if not self.has(source):
            nothing = self.binary_messages(template).where(F.lit(False))
            return nothing.withColumn("venue", F.lit(None).cast("string"))
        found = legacy_venue_trades(self.table(source), template, self.left_out)
        return found.withColumn("place", event_key())

    @cached_property
    def legacy_channels(self) -> list[int]:
        """Channels that are read from the legacy feed."""
        there = self.has(LEGACY_ENTRIES) or self.has(LEGACY_SNAPSHOTS)
        return sorted(self.left_out.slots) if there else []

    @cached_property
    def left_out(self) -> LegacyExclusions:
        """Exclusions of the legacy feed for this day."""
        return left_out(self.tables.lake, self.date)

    def snapshots(self, template: int) -> DataFrame:
        """Return a template's messages of snapshots; of the legacy feed, phases and states.

        These have the event key in ``place`` that their snapshot is as of.
        """
        found = self.table(message_table(template)).where(F.col("stream") == Stream.SNAPSHOT.value)
        if template not in (SECURITY_STATUS, SECURITY_GROUP_PHASE):
            return found
        if not self.has(LEGACY_SNAPSHOTS):
            return found
        states = self.tables.once(
            (self.date, LEGACY_SNAPSHOTS),
            lambda: legacy_states(self.table(LEGACY_SNAPSHOTS), self.left_out),
        )
        if template == SECURITY_STATUS:
            separate = F.col("security_trading_event").isNotNull()
            shown = states.where(separate).drop("trading_session_sub_id")
        else:
            phases = states.where(F.col("trading_session_sub_id").isNotNull())
            grouped = phases.join(F.broadcast(self.instruments().drop("symbol")), list(INSTRUMENT))
            names = ("channel", "stream", "sending_time_ns", "place", "trading_session_sub_id")
            shown = grouped.select(*names, "security_group")
        return found.unionByName(shown, allowMissingColumns=True)

    def in_first_snapshots(self, template: int) -> DataFrame:
        """Return a template's messages in the first snapshot of each instrument.

        ``place`` is the event key that the snapshot is as of: after the last packet in its header.
        """
        header_fields = ("sequence_version", "last_sequence_version", "last_msg_seq_num_processed")
        headers = (
            self.snapshots(SNAPSHOT_HEADER)
            .groupBy(*INSTRUMENT)
            .agg(
                F.min_by(F.struct("sending_time_ns", *header_fields), "sending_time_ns").alias(
                    "header"
                )
            )
            .join(F.broadcast(self._versions()), "channel", "left")
        )
        begun = F.filter("versions", lambda one: one["first_ns"] <= F.col("header.sending_time_ns"))
        version = F.coalesce(
            "header.last_sequence_version", F.try_element_at(begun, F.lit(-1))["version"]
        )
        packet = version.cast("bigint") * EVENT_VERSION
        packet = packet + F.col("header.last_msg_seq_num_processed") * EVENT_NUMBER
        placed = headers.select(
            *INSTRUMENT,
            F.col("header.sequence_version").alias("sequence_version"),
            (packet + EVENT_NUMBER - 1).alias("place"),
        )
        # The messages of a snapshot are in the loop of its header.
        found = self.snapshots(template).join(placed, [*INSTRUMENT, "sequence_version"])
        if not self.has(LEGACY_SNAPSHOTS):
            return found
        shown = legacy_shown(self.table(LEGACY_SNAPSHOTS), template, self.left_out)
        return found.unionByName(shown, allowMissingColumns=True)

    def _versions(self) -> DataFrame:
        """Return the sequence versions of each channel's incremental stream, with start times.

        Below schema version 15 snapshots do not state theirs: it is the latest at that time.
        """
        first = (
            self.table("packets")
            .where(F.col("stream") == Stream.INCREMENTAL.value)
            .groupBy("channel", F.col("sequence_version").alias("version"))
            .agg(F.min("sending_time_ns").alias("first_ns"))
        )
        return first.groupBy("channel").agg(
            F.sort_array(F.collect_list(F.struct("first_ns", "version"))).alias("versions")
        )

    def instruments(self) -> DataFrame:
        """Return the instruments with their symbols and groups, of both feeds."""
        found = self.table(INSTRUMENTS).select(*INSTRUMENT, "symbol", "security_group")
        if self.has(LEGACY_LIST):
            listed = self.tables.once(
                (self.date, LEGACY_LIST),
                lambda: legacy_instruments(self.table(LEGACY_LIST), self.left_out),
            )
            found = found.unionByName(listed)
        return found

    def with_symbols(self, frame: DataFrame) -> DataFrame:
        """Add the symbol of each row's instrument, where known."""
        symbols = self.instruments().drop("security_group")
        return frame.join(F.broadcast(symbols), list(INSTRUMENT), "left")

    def fingerprint(self, names: Iterable[str], *more: Any) -> int:
        """Return a number that changes with the files of these tables or any other argument."""
        digest = hashlib.sha256(repr(more).encode())
        for name in sorted(names):
            files = sorted(self.tables.files(name).get(self.date, ()))
            digest.update(repr((name, files)).encode())
        return int.from_bytes(digest.digest()[:8], "big") >> 2
