"""Sessions of instruments; a day's statistics restart with each.

A session starts where a SecurityStatus of the instrument, or a SecurityGroupPhase of its group, has
the event TRADING_SESSION_CHANGE.
"""

from __future__ import annotations

from pregao.lake.analytics.engine import DataFrame, F, Window
from pregao.lake.analytics.reading import INSTRUMENT, LakeDay
from pregao.umdf.phases import TradingEvent
from pregao.umdf.templates import SECURITY_GROUP_PHASE, SECURITY_STATUS

_BEGINS = TradingEvent.TRADING_SESSION_CHANGE.name


def session_starts(day: LakeDay) -> DataFrame:
    """Return the session starts: instrument, event key and time of the message."""
    begins = F.col("security_trading_event") == _BEGINS
    started = F.col("transact_time_ns").alias("session_start_ns")
    own = day.messages(SECURITY_STATUS).where(begins).select(*INSTRUMENT, "place", started)
    groups = (
        day.messages(SECURITY_GROUP_PHASE)
        .where(begins)
        .select("channel", "security_group", "place", started)
    )
    members = day.instruments().drop("symbol")
    of_groups = groups.join(F.broadcast(members), ["channel", "security_group"])
    return own.unionByName(of_groups.drop("security_group"))


def with_sessions(day: LakeDay, frame: DataFrame) -> DataFrame:
    """Add the number and the start of each row's session, by its event key.

    Number 0 is a session that started before the data.
    """
    starts = session_starts(day).withColumn("begins", F.lit(1))
    both = frame.withColumn("begins", F.lit(0)).unionByName(starts, allowMissingColumns=True)
    so_far = Window.partitionBy(*INSTRUMENT).orderBy("place", F.desc("begins"))
    return (
        both.withColumn("session", F.sum("begins").over(so_far).cast("int"))
        .withColumn("session_start_ns", F.last("session_start_ns", ignorenulls=True).over(so_far))
        .where(F.col("begins") == 0)
        .drop("begins")
    )
