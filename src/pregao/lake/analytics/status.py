"""Table ``status``: phases of groups and states of instruments over the day."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.lake.analytics.engine import DataFrame, F, spark_type
from pregao.lake.analytics.reading import INSTRUMENT, INSTRUMENTS, LakeDay
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope, column, conform
from pregao.lake.analytics.timeline import GroupMember, StatusMessage, timeline
from pregao.umdf.keys import MESSAGE_KEY, key_field
from pregao.umdf.templates import (
    DELISTED,
    LISTED,
    SECURITY_DEFINITIONS,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
)

COLUMNS = (
    key_field("channel"),
    column("security_group", pa.string(), "Group."),
    column("security_id", pa.int64(), "Instrument; null in the rows of the group itself."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("status", pa.string(), "State in effect: the instrument's own, or its group's phase."),
    column("phase", pa.string(), "Phase of the group."),
    column("own_status", pa.bool_(), "Whether the instrument had its own state."),
    column("trades_continuously", pa.bool_(), "Whether orders could trade immediately."),
    column("trading_session_id", pa.string(), "Regular session or after-market."),
    column("auction_end_ns", pa.int64(), "Estimated end of the auction, if published."),
    column("new_session", pa.bool_(), "Whether statistics restarted."),
    column("from_ns", pa.int64(), "Start of the state."),
    column(
        "until_ns", pa.int64(), "End of the state; null if it was in effect at the end of the data."
    ),
    column("source", pa.string(), "Source: phase, state, definition; or a snapshot's."),
    column("event", pa.int64(), "Event of the phase or state; null for others."),
    key_field("sequence_version", "Sequence version of the packet."),
    key_field("sequence_number", "Number of the packet."),
    key_field("index_in_packet", "Index of the message in its packet."),
)

_PUBLISHED = (
    "security_group", "security_id", "code", "trading_event", "trading_session_id",
    "auction_end_ns", "time_ns", "sending_time_ns", "snapshot", "place", "event", *MESSAGE_KEY,
)  # fmt: skip
_MEMBER = ("security_id", "security_group", "listed_at", "listed_ns", "removed_at", "removed_ns")
_BUILT = (
    *(field for field in COLUMNS if field.name != "symbol"),
    column("at", pa.int64(), "Event key of the last incremental message at that time."),
    column("line", pa.int64(), "Number of the row in its channel."),
)
_BUILT_TYPES = ", ".join(f"{field.name} {spark_type(field.type)}" for field in _BUILT)


def status(day: LakeDay) -> DataFrame:
    """Return the day's timeline of all groups and instruments."""
    return conform(day.with_symbols(lines(day)), COLUMNS)


def lines(day: LakeDay) -> DataFrame:
    """Return the timeline without symbols, with the columns that order its rows.

    It is that of the whole channel: an instrument that rejoins its group shows the group's phase.
    """
    if day.facts is None:
        return day.once("lines", lambda: _lines(day))
    found = day.session.from_arrow([day.facts.lines], _BUILT_TYPES)
    if day.part is None:
        return found
    own = (F.col("security_id") >= day.part.first) & (F.col("security_id") <= day.part.last)
    return found.where(own)


def _lines(day: LakeDay) -> DataFrame:
    messages_of_day = (
        _published(day, SECURITY_GROUP_PHASE)
        .unionByName(_published(day, SECURITY_STATUS))
        .withColumn("member", F.lit(False))
    )
    row_schema = pa.schema([pa.field(field.name, field.type) for field in _BUILT])

    def follow(rows: Any) -> Any:
        found = rows.to_pylist()
        members = [GroupMember(*[row[name] for name in _MEMBER]) for row in found if row["member"]]
        messages = [
            StatusMessage(*[row[name] for name in _PUBLISHED]) for row in found if not row["member"]
        ]
        channel = found[0]["channel"]
        rows_made = [{"channel": channel, **line} for line in timeline(members, messages)]
        return pa.Table.from_pylist(rows_made, row_schema)

    both = messages_of_day.unionByName(_members(day), allowMissingColumns=True)
    return both.groupBy("channel").applyInArrow(follow, _BUILT_TYPES)


def _members(day: LakeDay) -> DataFrame:
    """Return the instruments; those added or removed during the day with the messages' keys."""
    definitions = [day.messages(template) for template in sorted(SECURITY_DEFINITIONS)]
    keys = [*INSTRUMENT, "place", "sending_time_ns", "security_update_action"]
    updates = definitions[0].select(*keys).unionByName(definitions[1].select(*keys))
    added = F.col("security_update_action").isin(*sorted(LISTED))
    changes = updates.groupBy(*INSTRUMENT).agg(
        F.min_by(F.struct("place", "sending_time_ns"), F.when(added, F.col("place"))).alias(
            "first"
        ),
        F.max_by(F.struct("place", "sending_time_ns", "security_update_action"), "place").alias(
            "last"
        ),
    )
    gone = F.col("last.security_update_action").isin(*sorted(DELISTED))
    return (
        day.instruments()
        .select(*INSTRUMENT, "security_group")
        .join(changes, list(INSTRUMENT), "left")
        .select(
            *INSTRUMENT,
            "security_group",
            F.coalesce("first.place", F.lit(0)).alias("listed_at"),
            F.col("first.sending_time_ns").alias("listed_ns"),
            F.when(gone, F.col("last.place")).alias("removed_at"),
            F.when(gone, F.col("last.sending_time_ns")).alias("removed_ns"),
            F.lit(True).alias("member"),
        )
    )


def _published(day: LakeDay, template: int) -> DataFrame:
    """Return phases or states: all of the incremental stream, the first of each from snapshots."""
    subject = "security_id" if template == SECURITY_STATUS else "security_group"
    snapshots = day.snapshots(template)
    known = F.col("place") if "place" in snapshots.columns else F.lit(None)
    snapshots = snapshots.withColumn("place", F.coalesce(known.cast("bigint"), F.lit(0)))
    fields = [name for name in day.messages(template).columns if name in snapshots.columns]
    first = (
        snapshots.groupBy("channel", subject)
        .agg(F.min_by(F.struct(*fields), "sending_time_ns").alias("first"))
        .select("first.*")
    )
    return _columns(day.messages(template), template, False).unionByName(
        _columns(first, template, True)
    )


def _columns(messages: DataFrame, template: int, snapshot: bool) -> DataFrame:
    of_instrument = template == SECURITY_STATUS
    nothing = F.lit(None)
    code = "security_trading_status" if of_instrument else "trading_session_sub_id"
    sequence = ["event", *MESSAGE_KEY]
    kinds = {field.name: spark_type(field.type) for field in COLUMNS}
    return messages.select(
        "channel",
        (nothing.cast("string") if of_instrument else F.col("security_group")).alias(
            "security_group"
        ),
        (F.col("security_id") if of_instrument else nothing.cast("bigint")).alias("security_id"),
        F.col(code).alias("code"),
        F.col("security_trading_event").alias("trading_event"),
        "trading_session_id",
        F.col("trad_ses_open_time_ns").alias("auction_end_ns"),
        F.col("transact_time_ns").alias("time_ns"),
        "sending_time_ns",
        F.lit(snapshot).alias("snapshot"),
        "place",
        *[
            (nothing.cast(kinds[name]) if snapshot else F.col(name)).alias(name)
            for name in sequence
        ],
    )


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return status(day)


STATUS = AnalyticsTable(
    "status",
    "State of a group or an instrument, from its start to its end.",
    COLUMNS,
    _build,
    (SECURITY_STATUS, SECURITY_GROUP_PHASE, *sorted(SECURITY_DEFINITIONS)),
    (INSTRUMENTS,),
    scope=Scope.CHANNEL,
    sort_by=("channel", "security_id", "from_ns", "event"),
)
