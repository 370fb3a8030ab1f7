"""The tables of a lake as the engine sees them, a day at a time."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pregao.lake.analytics.engine import Column, DataFrame, F
from pregao.lake.analytics.here import HereSession
from pregao.lake.analytics.legacy import (
    LEGACY_LIST,
    LEGACY_PACKETS,
    LEGACY_SNAPSHOTS,
    LEGACY_SOURCES,
    legacy_instruments,
    legacy_messages,
    legacy_states,
)
from pregao.lake.analytics.legacy_left_out import LeftOut, left_out
from pregao.lake.ingest import bundled_message_tables, message_table_name
from pregao.lake.store import DATE, Lake
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.streams import ONLY_SNAPSHOT, Stream
from pregao.umdf.templates import (
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
"""What names an instrument: the same number may be on two channels."""


def message_table(template: int) -> str:
    """The name of a template's table."""
    return message_table_name(bundled_message_tables().templates[template].name)


def incremental_templates() -> tuple[int, ...]:
    """The messages that the incremental stream may have with a number."""
    outside = {SEQUENCE, SEQUENCE_RESET, *ONLY_SNAPSHOT}
    return tuple(sorted(set(bundled_message_tables().templates) - outside))


def place() -> Column:
    """Where a message stands in its channel, as one number that compares with event numbers.

    An event's number is the place of its first message.
    """
    return (
        F.col("sequence_version").cast("bigint") * EVENT_VERSION
        + F.col("sequence_number") * EVENT_NUMBER
        + F.col("index_in_packet")
    )


def bit(column: str, mask: int) -> Column:
    """Is this bit of a set given?"""
    return F.col(column).bitwiseAND(mask) != 0


def is_recovery() -> Column:
    """Was the message sent again, to restore a book?"""
    return F.coalesce(bit("match_event_indicator", RECOVERY), F.lit(False))


def files_by_day(lake: Lake, name: str) -> dict[datetime.date, list[str]]:
    """The files of a table by day."""
    found: dict[datetime.date, list[str]] = {}
    actions = pa.table(lake.delta(name).get_add_actions(flatten=True))
    for path, date in zip(
        actions["path"].to_pylist(), actions[f"partition.{DATE}"].to_pylist(), strict=True
    ):
        found.setdefault(date, []).append(path)
    return found


def dates_with_data(lake: Lake) -> list[datetime.date]:
    """The days on which packets were seen, of either feed."""
    there = set(lake.table_names()).intersection(("packets", LEGACY_PACKETS))
    return sorted({day for name in there for day in files_by_day(lake, name)})


class Tables:
    """The tables of a lake, each opened once; what is ingested meanwhile is not seen."""

    def __init__(self, spark: SparkSession | HereSession, lake: Lake) -> None:
        self.spark: Any = spark
        self.lake = lake
        self._names = frozenset(lake.table_names())
        self._frames: dict[tuple[str, datetime.date | None], DataFrame] = {}
        self._files: dict[str, dict[datetime.date, list[str]]] = {}
        self._kept: list[DataFrame] = []
        self._once: dict[Hashable, DataFrame] = {}

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, worked out once however often they are used, until `release`."""
        self._kept.append(frame.persist())
        return self._kept[-1]

    def once(self, name: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """What is made of the name at its first use, and the same again until `release`."""
        if name not in self._once:
            self._once[name] = make()
        return self._once[name]

    def release(self) -> None:
        """Let go of what was kept."""
        self._once.clear()
        while self._kept:
            self._kept.pop().unpersist()
        if isinstance(self.spark, HereSession):
            self.spark.release()

    def day(self, date: datetime.date) -> Day:
        """One day of all tables."""
        return Day(self, date)

    def names(self, beginning: str) -> list[str]:
        """The tables whose name begins so."""
        return sorted(name for name in self._names if name.startswith(beginning))

    def forget(self, name: str) -> None:
        """Open a table anew when it is named next: it was changed."""
        self._names = frozenset(self.lake.table_names())
        self._frames = {key: frame for key, frame in self._frames.items() if key[0] != name}
        self._files.pop(name, None)

    def frame(self, name: str, date: datetime.date | None = None) -> DataFrame:
        """All rows of a table, or those of a day."""
        if isinstance(self.spark, HereSession):
            # The files of other days are not even looked at.
            if (name, date) not in self._frames:
                self._frames[name, date] = cast("DataFrame", self.spark.table(name, date))
            return self._frames[name, date]
        if (name, None) not in self._frames:
            from pregao.lake.spark import table_frame  # which needs PySpark

            self._frames[name, None] = table_frame(self.lake, name, self.spark)
        whole = self._frames[name, None]
        return whole if date is None else whole.where(F.col(DATE) == F.lit(date))

    def files(self, name: str) -> dict[datetime.date, list[str]]:
        """The files of a table by day; none if there is no such table."""
        if name not in self._names:
            return {}
        if name not in self._files:
            self._files[name] = files_by_day(self.lake, name)
        return self._files[name]

    @cached_property
    def _before_implied(self) -> list[str]:
        """The captures with messages of versions in which the bit for implied meant another."""
        rows = self.lake.delta("ingests").to_pyarrow_table(
            columns=["capture_id", "schema_versions"]
        )
        return [
            row["capture_id"]
            for row in rows.to_pylist()
            if any(version < IMPLIED_SINCE for version in row["schema_versions"] or ())
        ]

    def is_implied(self, messages: DataFrame) -> Column:
        """Is an implied order meant? Null where the schema version has no bit for it.

        Rows of lakes that did not keep the version yet are judged by that of their capture.
        """
        told = by_capture = bit("match_event_indicator", IMPLIED)
        if self._before_implied:
            by_capture = F.when(~F.col("capture_id").isin(self._before_implied), told)
        if "schema_version" not in messages.columns:
            return by_capture
        version = F.col("schema_version")
        return F.when(version.isNull(), by_capture).when(version >= IMPLIED_SINCE, told)


class Day:
    """One day of a lake's tables."""

    def __init__(self, tables: Tables, date: datetime.date) -> None:
        self.tables = tables
        self.date = date

    @property
    def spark(self) -> Any:
        """The session in which the tables are open: Spark's, or this process's."""
        return self.tables.spark

    def has(self, name: str) -> bool:
        """Has a table rows of this day?"""
        return self.date in self.tables.files(name)

    def table(self, name: str) -> DataFrame:
        """A table's rows of this day."""
        return self.tables.frame(name, self.date)

    def messages(self, template: int) -> DataFrame:
        """A template's messages of the incremental stream, with their place."""
        found, older = self.binary_messages(template), self.legacy_messages(template)
        return found if older is None else found.unionByName(older, allowMissingColumns=True)

    def binary_messages(self, template: int) -> DataFrame:
        """Those of the binary feed alone."""
        found = self.table(message_table(template))
        own = found.where(F.col("stream") == Stream.INCREMENTAL.value)
        return own.withColumn("place", place())

    def legacy_messages(self, template: int) -> DataFrame | None:
        """Those of the legacy feed, where the binary feed has not the same; None without any."""
        source = LEGACY_SOURCES.get(template)
        if source is None or not self.has(source):
            return None
        found = self.tables.once(
            (self.date, template),
            lambda: legacy_messages(self.table(source), template, self.left_out),
        )
        return found.withColumn("place", place())

    @cached_property
    def left_out(self) -> LeftOut:
        """What of the legacy feed is left out of this day."""
        return left_out(self.tables.lake, self.date)

    def snapshots(self, template: int) -> DataFrame:
        """A template's messages of the snapshot stream; of the legacy feed, phases and states."""
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
            told = phases.join(F.broadcast(self.instruments().drop("symbol")), list(INSTRUMENT))
            names = ("channel", "stream", "sending_time_ns", "trading_session_sub_id")
            shown = told.select(*names, "security_group")
        return found.unionByName(shown, allowMissingColumns=True)

    def in_first_snapshots(self, template: int) -> DataFrame:
        """A template's messages in the first snapshot of each instrument.

        ``place`` is what the snapshot holds as of: behind the last packet that its header names.
        """
        told = ("sequence_version", "last_sequence_version", "last_msg_seq_num_processed")
        headers = (
            self.snapshots(SNAPSHOT_HEADER)
            .groupBy(*INSTRUMENT)
            .agg(F.min_by(F.struct("sending_time_ns", *told), "sending_time_ns").alias("header"))
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
        return self.snapshots(template).join(placed, [*INSTRUMENT, "sequence_version"])

    def _versions(self) -> DataFrame:
        """The sequence versions of each channel's incremental stream, and when each began.

        Below schema version 15 snapshots do not say of which they are: of the latest then.
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
        """The instruments with their symbols and groups, of both feeds."""
        found = self.table(INSTRUMENTS).select(*INSTRUMENT, "symbol", "security_group")
        if self.has(LEGACY_LIST):
            listed = self.tables.once(
                (self.date, LEGACY_LIST),
                lambda: legacy_instruments(self.table(LEGACY_LIST), self.left_out),
            )
            found = found.unionByName(listed)
        return found

    def with_symbols(self, frame: DataFrame) -> DataFrame:
        """The same rows with the symbol of their instrument, where it is known."""
        symbols = self.instruments().drop("security_group")
        return frame.join(F.broadcast(symbols), list(INSTRUMENT), "left")

    def fingerprint(self, names: Iterable[str], *more: Any) -> int:
        """A number that changes when the files of these tables, or anything else given, do."""
        digest = hashlib.sha256(repr(more).encode())
        for name in sorted(names):
            files = sorted(self.tables.files(name).get(self.date, ()))
            digest.update(repr((name, files)).encode())
        return int.from_bytes(digest.digest()[:8], "big") >> 2
