"""Table ``status``: phases of groups and states of instruments over the day."""

from __future__ import annotations

import pyarrow as pa

from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.columns import spark_type
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import INSTRUMENTS, PACKETS, LakeDay, version_starts
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope, column, conform
from pregao.lake.analytics.timeline import GroupMember, StatusMessage, timeline
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.keys import key_field
from pregao.umdf.templates import (
    DELISTED,
    LISTED,
    SECURITY_DEFINITIONS,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SNAPSHOT_HEADER,
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

_BUILT = (
    *(field for field in COLUMNS if field.name != "symbol"),
    column("at", pa.int64(), "Event key of the last incremental message at that time."),
    column("line", pa.int64(), "Number of the row in its channel."),
)
_BUILT_TYPES = ", ".join(f"{field.name} {spark_type(field.type)}" for field in _BUILT)

_MEMBERS = """
WITH updates AS (
    SELECT channel, security_id, place, sending_time_ns, security_update_action
    FROM definitions
    UNION ALL
    SELECT channel, security_id, place, sending_time_ns, security_update_action
    FROM older_definitions
),
listings AS (
    SELECT channel, security_id, min(place) AS listed_at,
        arg_min(sending_time_ns, place) AS listed_ns
    FROM updates WHERE security_update_action IN (SELECT unnest($listed))
    GROUP BY channel, security_id
),
removals AS (
    SELECT channel, security_id, max(place) AS removed_at,
        arg_max(sending_time_ns, place) AS removed_ns
    FROM updates GROUP BY channel, security_id
    HAVING arg_max_null(security_update_action, place) IN (SELECT unnest($delisted))
)
SELECT instrument.channel, instrument.security_id, security_group,
    -- 0 is an instrument listed before the day.
    coalesce(listed_at, 0) AS listed_at, listed_ns, removed_at, removed_ns
FROM instruments AS instrument
LEFT JOIN listings USING (channel, security_id)
LEFT JOIN removals USING (channel, security_id)
"""

_MESSAGES = """
WITH headers AS (
    -- Below schema version 15 a header does not state the sequence version it is as of.
    SELECT header.channel, security_id, header.sequence_version AS loop, sending_time_ns,
        CAST(coalesce(last_sequence_version, version.version) AS BIGINT) * $event_version
            + (last_msg_seq_num_processed + 1) * $event_number - 1 AS as_of
    FROM snapshot_headers AS header
    ASOF LEFT JOIN versions AS version
        ON header.channel = version.channel AND header.sending_time_ns >= version.first_ns
),
-- The phases of a loop precede its headers.
loops AS (
    SELECT channel, loop, min(as_of) AS as_of FROM headers GROUP BY channel, loop
),
shown_phases AS (
    SELECT phase.channel, security_group, NULL::BIGINT AS security_id,
        trading_session_sub_id AS code, security_trading_event, trading_session_id,
        trad_ses_open_time_ns, transact_time_ns, sending_time_ns,
        coalesce(place, loop.as_of) AS as_of
    FROM (SELECT NULL::BIGINT AS place WHERE false UNION ALL BY NAME FROM phase_snapshots) AS phase
    LEFT JOIN loops AS loop
        ON phase.channel = loop.channel AND phase.sequence_version = loop.loop
),
shown_states AS (
    SELECT state.channel, NULL AS security_group, state.security_id,
        security_trading_status AS code, security_trading_event, trading_session_id,
        trad_ses_open_time_ns, transact_time_ns, state.sending_time_ns,
        coalesce(place, header.as_of) AS as_of
    FROM (SELECT NULL::BIGINT AS place WHERE false UNION ALL BY NAME FROM state_snapshots) AS state
    ASOF LEFT JOIN headers AS header
        ON state.channel = header.channel AND state.security_id = header.security_id
        AND state.sequence_version = header.loop
        AND state.sending_time_ns >= header.sending_time_ns
),
shown AS (
    SELECT snapshot.*, lost.place AS lost_before
    FROM (FROM shown_phases UNION ALL FROM shown_states) AS snapshot
    ASOF LEFT JOIN lost ON snapshot.channel = lost.channel AND snapshot.as_of >= lost.place
),
-- Snapshots repeat the state: the first one counts, and the first one after each loss.
informative AS (
    SELECT * FROM shown
    QUALIFY row_number() OVER (
        PARTITION BY channel, security_group, security_id, lost_before
        ORDER BY sending_time_ns
    ) = 1
),
messages AS (
    SELECT channel, security_group, NULL::BIGINT AS security_id, trading_session_sub_id AS code,
        security_trading_event, trading_session_id, trad_ses_open_time_ns, transact_time_ns,
        sending_time_ns, place, event, sequence_version, sequence_number, index_in_packet
    FROM phases
    UNION ALL
    SELECT channel, NULL, security_id, security_trading_status, security_trading_event,
        trading_session_id, trad_ses_open_time_ns, transact_time_ns, sending_time_ns, place,
        event, sequence_version, sequence_number, index_in_packet
    FROM states
)
SELECT channel, security_group, security_id, code, security_trading_event AS trading_event,
    trading_session_id, trad_ses_open_time_ns AS auction_end_ns, transact_time_ns AS time_ns,
    sending_time_ns, false AS snapshot, NULL::BIGINT AS lost_before, place AS event_key, event,
    sequence_version, sequence_number, index_in_packet
FROM messages
UNION ALL
SELECT channel, security_group, security_id, code, security_trading_event,
    trading_session_id, trad_ses_open_time_ns, transact_time_ns, sending_time_ns, true,
    lost_before, coalesce(as_of, 0), NULL, NULL, NULL, NULL
FROM informative
"""


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
    """Return the timeline of every channel."""
    members = day.query(
        _MEMBERS,
        {"listed": sorted(LISTED), "delisted": sorted(DELISTED)},
        instruments=day.instruments(),
        older_definitions=day.messages(min(SECURITY_DEFINITIONS)),
        definitions=day.messages(max(SECURITY_DEFINITIONS)),
    )
    published = day.query(
        _MESSAGES,
        {"event_version": EVENT_VERSION, "event_number": EVENT_NUMBER},
        phases=day.messages(SECURITY_GROUP_PHASE),
        states=day.messages(SECURITY_STATUS),
        phase_snapshots=day.snapshots(SECURITY_GROUP_PHASE),
        state_snapshots=day.snapshots(SECURITY_STATUS),
        snapshot_headers=day.snapshots(SNAPSHOT_HEADER),
        versions=version_starts(day),
        lost=day.lost_packets(),
    )
    members_of: dict[int, list[GroupMember]] = {}
    for row in members.collect():
        members_of.setdefault(row.pop("channel"), []).append(GroupMember(**row))
    messages_of: dict[int, list[StatusMessage]] = {}
    for row in published.collect():
        messages_of.setdefault(row.pop("channel"), []).append(StatusMessage(**row))
    row_schema = pa.schema([pa.field(field.name, field.type) for field in _BUILT])
    tables = []
    for channel in sorted(members_of.keys() | messages_of.keys()):
        found = timeline(members_of.get(channel, ()), messages_of.get(channel, ()))
        rows = [{"channel": channel, **line} for line in found]
        tables.append(pa.Table.from_pylist(rows, row_schema))
    return day.session.from_arrow(tables, _BUILT_TYPES)


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return status(day)


STATUS = AnalyticsTable(
    "status",
    "State of a group or an instrument, from its start to its end.",
    COLUMNS,
    _build,
    (SECURITY_STATUS, SECURITY_GROUP_PHASE, SNAPSHOT_HEADER, *sorted(SECURITY_DEFINITIONS)),
    (INSTRUMENTS, PACKETS),
    scope=Scope.CHANNEL,
    sort_by=("channel", "security_id", "from_ns", "event"),
)
