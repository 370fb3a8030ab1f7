"""Table ``session_stats``: our statistics of each session, compared with the exchange's.

A session starts where a SecurityStatus of the instrument, or a SecurityGroupPhase of its group, has
the event TRADING_SESSION_CHANGE. A day's statistics restart with each. They are as of its end: a
trade that is busted or corrected after it counts as it was.

The documents do not state whether a leg's or a late trade sets a high or low. Here it does, as in
bars. Only the opening excludes some: block trades have no opening condition (000 §13.3.3).

For a session that began before the captures, the earlier trades are missing. The first value of
each statistic that the exchange published, in a snapshot or in a message, is its baseline: later
trades are compared. Where an earlier trade is busted or corrected later, nothing can be compared.

A bust changes opening, high and low only if no trade is left (000 §19): ours are of the trades that
were not busted, and the exchange's are compared with those that include busted ones.

The exchange rounds its average price to three or four decimals, in a way that the documents do not
state: it is equal if it is less than one step from ours, as is the baseline that it is compared to.

The binary feed states volume, average price and number of trades in one message, the legacy feed
each by itself, and crosses do not count in its average price (002 §7): there the average is
compared with ours without crosses, in whole sessions only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import INSTRUMENTS, LakeDay
from pregao.lake.analytics.tables import (
    AVERAGE,
    NOTIONAL,
    PRICE,
    AnalyticsOptions,
    AnalyticsTable,
    column,
    conform,
)
from pregao.lake.analytics.trades import CONDITIONS, TRADES, publications, stored_trades
from pregao.umdf.phases import SESSION_CHANGE
from pregao.umdf.templates import (
    DELETED,
    EXECUTION_STATISTICS,
    FORWARD_TRADE,
    HIGH_PRICE,
    LAST_TRADE_PRICE,
    LOW_PRICE,
    OPENING_PRICE,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SNAPSHOT_HEADER,
    TRADE,
    TRADE_BUST,
    value_names,
)

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("session", pa.int32(), "Session of the day; 0 began before the capture did."),
    column("session_start_ns", pa.int64(), "Start of the session, if captured."),
    column("trading_session_id", pa.string(), "Regular or after-market, as last published."),
    column(
        "open",
        PRICE,
        "Our opening price: that of the opening trade, else of the first that set the "
        "last price and is no block trade; without busted ones.",
    ),
    column("high", PRICE, "Highest price of all trades, without busted ones."),
    column("low", PRICE, "Lowest price of all trades, without busted ones."),
    column("last_price_high", PRICE, "Highest price of trades that set the last price."),
    column("last_price_low", PRICE, "Lowest price of trades that set the last price."),
    column("last", PRICE, "Our last price."),
    column("volume", pa.int64(), "Our quantity traded; for session 0, only what was captured."),
    column(
        "notional",
        NOTIONAL,
        "Our sum of price times quantity, without price divisor and contract multiplier.",
    ),
    column("vwap", AVERAGE, "Our average price."),
    column("trades", pa.int64(), "Our number of trades."),
    column("busts", pa.int64(), "Trades of the session that were busted before its end."),
    column("published_open", PRICE, "Last opening price that the exchange published."),
    column("published_high", PRICE, "Last high that the exchange published."),
    column("published_low", PRICE, "Last low that the exchange published."),
    column("published_volume", pa.int64(), "Last volume that the exchange published."),
    column("published_vwap", PRICE, "Last average price that the exchange published."),
    column("published_trades", pa.int64(), "Last number of trades that the exchange published."),
    column("initial_high", PRICE, "Session 0: first published high."),
    column("initial_low", PRICE, "Session 0: first published low."),
    column("initial_volume", pa.int64(), "Session 0: first published volume."),
    column("initial_vwap", PRICE, "Session 0: first published average price."),
    column("initial_trades", pa.int64(), "Session 0: first published number of trades."),
    column(
        "compared", pa.list_(pa.field("element", pa.string())), "Statistics that could be compared."
    ),
    column("equal", pa.bool_(), "Whether all of these are equal; null if none was compared."),
    column("differences", pa.list_(pa.field("element", pa.string())), "Statistics that differ."),
)

_PRICES: Final = (OPENING_PRICE, HIGH_PRICE, LOW_PRICE)
_NEVER: Final = (1 << 63) - 1
_CODES: Final = {
    "executions": EXECUTION_STATISTICS,
    "opening": OPENING_PRICE,
    "high": HIGH_PRICE,
    "low": LOW_PRICE,
    "deleted": sorted(DELETED),
    "openings": sorted(value_names("OpenCloseSettlFlag", 0, 1)),
}
"""Templates, and names of values: withdrawals, and opening prices of the day or session."""

_STARTS = """
SELECT channel, security_id, place, transact_time_ns AS session_start_ns
FROM states WHERE security_trading_event IN (SELECT unnest($session_change))
UNION ALL
SELECT channel, member.security_id, place, transact_time_ns
FROM phases JOIN instruments AS member USING (channel, security_group)
WHERE security_trading_event IN (SELECT unnest($session_change))
"""

_PUBLISHED = """
WITH stated AS (
    -- The legacy feed publishes volume, number and average each by itself, and states which.
    SELECT NULL::BOOLEAN AS states_volume, NULL::BOOLEAN AS states_trades,
        NULL::BOOLEAN AS states_vwap WHERE false
    UNION ALL BY NAME SELECT * FROM executions
),
prices AS (
    SELECT channel, security_id, place, md_update_action, md_entry_px, $opening AS statistic
    FROM openings WHERE open_close_settl_flag IN (SELECT unnest($openings))
    UNION ALL BY NAME
    SELECT channel, security_id, place, md_update_action, md_entry_px, $high AS statistic
    FROM highs
    UNION ALL BY NAME
    SELECT channel, security_id, place, md_update_action, md_entry_px, $low AS statistic
    FROM lows
)
SELECT channel, security_id, place, $executions AS statistic, trading_session_id,
    trade_volume AS stated_volume, vwap_px AS stated_vwap, number_of_trades AS stated_trades,
    coalesce(states_volume, true) AS states_volume,
    coalesce(states_trades, true) AS states_trades,
    coalesce(states_vwap, true) AS states_vwap
FROM stated
UNION ALL BY NAME
SELECT channel, security_id, place, statistic,
    CASE WHEN md_update_action NOT IN (SELECT unnest($deleted)) THEN md_entry_px END
        AS stated_price
FROM prices
"""
"""What the exchange published: a row per statistic, with its template."""

_STATISTICS = """
WITH sessions AS (
    -- Number 0 is the session that started before the data.
    SELECT channel, security_id, place AS begins, max(session_start_ns) AS session_start_ns,
        CAST(sum(count(*)) OVER in_order AS INTEGER) AS session,
        coalesce(lead(place) OVER in_order, $never) AS ends
    FROM starts GROUP BY channel, security_id, place
    WINDOW in_order AS (PARTITION BY channel, security_id ORDER BY place)
),
first_starts AS (
    SELECT channel, security_id, min(begins) AS ends FROM sessions GROUP BY channel, security_id
),
made AS (
    SELECT trade.*, coalesce(session.session, 0) AS session, session.session_start_ns,
        coalesce(session.ends, first_start.ends, $never) AS ends
    FROM trades AS trade
    ASOF LEFT JOIN sessions AS session
        ON trade.channel = session.channel AND trade.security_id = session.security_id
        AND trade.place >= session.begins
    LEFT JOIN first_starts AS first_start
        ON trade.channel = first_start.channel AND trade.security_id = first_start.security_id
),
-- Trades count as they stood at the end of the session in which they were made.
corrections AS (
    SELECT channel, security_id, trade_date, trade_id, max(again.place) AS place,
        arg_max(again.price, again.place) AS price, arg_max(again.size, again.place) AS size,
        arg_max(again.trade_condition, again.place) AS trade_condition
    FROM made JOIN publications AS again USING (channel, security_id, trade_date, trade_id)
    WHERE made.publications > 1 AND again.place > made.place AND again.place < made.ends
    GROUP BY channel, security_id, trade_date, trade_id
),
withdrawals AS (
    SELECT channel, security_id, trade_date, trade_id, max(bust.place) AS place
    FROM made JOIN busts AS bust USING (channel, security_id, trade_date, trade_id)
    WHERE bust.place < made.ends
    GROUP BY channel, security_id, trade_date, trade_id
),
standing AS (
    SELECT channel, security_id, made.session, made.session_start_ns, made.place, trade_id,
        made.sets_last_price, made.trading_session_id, again.place IS NOT NULL AS corrected,
        coalesce(again.price, made.original_price) AS price,
        coalesce(again.size, made.original_size) AS size,
        coalesce(again.trade_condition, made.original_trade_condition) AS conditions,
        coalesce(bust.place > coalesce(again.place, made.place), false) AS busted
    FROM made
    LEFT JOIN corrections AS again USING (channel, security_id, trade_date, trade_id)
    LEFT JOIN withdrawals AS bust USING (channel, security_id, trade_date, trade_id)
),
-- A bust with the place of its trade; -1 if that was not received.
bust_rows AS (
    SELECT channel, security_id, bust.place, $bust AS statistic,
        coalesce(trade.place, -1) AS busted_place
    FROM busts AS bust LEFT JOIN trades AS trade USING (channel, security_id, trade_date, trade_id)
),
-- The values of the first snapshot only.
first_shown AS (
    SELECT * FROM (
        SELECT * FROM shown
        UNION ALL BY NAME
        SELECT channel, security_id, place, $last_trade AS statistic, trade_id FROM last_trades
    )
    QUALIFY row_number() OVER (PARTITION BY channel, security_id, statistic ORDER BY place) = 1
),
published_rows AS (
    SELECT *, false AS snapshot FROM published
    UNION ALL BY NAME SELECT *, false AS snapshot FROM bust_rows
    UNION ALL BY NAME SELECT *, true AS snapshot FROM first_shown
),
placed AS (
    SELECT found.*, coalesce(session.session, 0) AS session, session.session_start_ns
    FROM published_rows AS found
    ASOF LEFT JOIN sessions AS session
        ON found.channel = session.channel AND found.security_id = session.security_id
        AND found.place >= session.begins
),
entries AS (
    SELECT *, true AS is_trade, false AS snapshot FROM standing
    UNION ALL BY NAME
    SELECT *, false AS is_trade FROM placed WHERE session = 0 OR NOT snapshot
),
-- Where each statistic of a session becomes known: from its start, or by its first publication.
-- Where the last trade that was left was busted, the prices were withdrawn.
baselines AS (
    SELECT channel, security_id, session,
        CASE WHEN session > 0 THEN -1 ELSE min(place) FILTER (states_volume) END AS volume_known,
        CASE WHEN session > 0 THEN -1 ELSE min(place) FILTER (statistic = $high) END AS high_known,
        CASE WHEN session > 0 THEN -1 ELSE min(place) FILTER (statistic = $low) END AS low_known,
        coalesce(max(place) FILTER (states_volume AND NOT snapshot AND stated_trades = 0), -1)
            AS cleared_at
    FROM entries GROUP BY channel, security_id, session
),
-- A trade counts where the statistics after it were published.
counted AS (
    SELECT entry.*, coalesce(next.place, entry.place) AS counted_at,
        max(trade_id) OVER (
            PARTITION BY entry.channel, entry.security_id, entry.session ORDER BY entry.place
        ) AS newest_trade
    FROM entries AS entry
    ASOF LEFT JOIN (
        SELECT channel, security_id, session, place FROM entries
        WHERE states_volume AND NOT snapshot
    ) AS next
        ON entry.channel = next.channel AND entry.security_id = next.security_id
        AND entry.session = next.session AND entry.place <= next.place
),
compared_rows AS (
    SELECT counted.*, baseline.* EXCLUDE (channel, security_id, session),
        is_trade AND NOT busted AS counts,
        -- Busted trades keep their effect on prices, until no trade is left.
        is_trade AND place > cleared_at AS moves_prices,
        is_trade AND conditions & $opening_trade <> 0 AS opens,
        sets_last_price AND conditions & $block = 0 AS may_open,
        is_trade AND conditions & $crossed = 0 AND NOT busted AS uncrossed,
        counted_at > volume_known AS after_volume,
        counted_at > high_known AS after_high,
        counted_at > low_known AS after_low,
        -- A number below the highest seen is a republication of a trade from before.
        coalesce(is_trade AND trade_id < newest_trade, false) AS from_before
    FROM counted JOIN baselines AS baseline USING (channel, security_id, session)
),
statistics AS (
    SELECT channel, security_id, session, session_start_ns,
        arg_max(trading_session_id, place) AS trading_session_id,
        coalesce(
            arg_min(price, place) FILTER (counts AND opens),
            arg_min(price, place) FILTER (counts AND may_open)
        ) AS open,
        max(price) FILTER (counts) AS high,
        min(price) FILTER (counts) AS low,
        max(price) FILTER (counts AND sets_last_price) AS last_price_high,
        min(price) FILTER (counts AND sets_last_price) AS last_price_low,
        arg_max(price, place) FILTER (counts AND sets_last_price) AS last,
        coalesce(sum(size) FILTER (counts), 0) AS volume,
        CAST(coalesce(sum(price * CAST(size AS DECIMAL(19, 0))) FILTER (counts), 0)
            AS DECIMAL(34, 4)) AS notional,
        count(*) FILTER (counts) AS trades,
        count(*) FILTER (is_trade AND busted) AS busts,
        arg_max_null(stated_price, place) FILTER (statistic = $opening) AS published_open,
        arg_max_null(stated_price, place) FILTER (statistic = $high) AS published_high,
        arg_max_null(stated_price, place) FILTER (statistic = $low) AS published_low,
        arg_max_null(stated_volume, place) FILTER (states_volume) AS published_volume,
        arg_max_null(stated_vwap, place) FILTER (states_vwap) AS published_vwap,
        arg_max_null(stated_trades, place) FILTER (states_trades) AS published_trades,
        arg_min_null(stated_price, place) FILTER (session = 0 AND statistic = $high)
            AS initial_high,
        arg_min_null(stated_price, place) FILTER (session = 0 AND statistic = $low)
            AS initial_low,
        arg_min_null(stated_volume, place) FILTER (session = 0 AND states_volume)
            AS initial_volume,
        arg_min_null(stated_vwap, place) FILTER (session = 0 AND states_vwap) AS initial_vwap,
        arg_min_null(stated_trades, place) FILTER (session = 0 AND states_trades)
            AS initial_trades,
        -- Ours since the exchange's are known.
        coalesce(
            arg_min(price, place) FILTER (moves_prices AND opens),
            arg_min(price, place) FILTER (moves_prices AND may_open)
        ) AS later_open,
        max(price) FILTER (moves_prices AND after_high) AS later_high,
        min(price) FILTER (moves_prices AND after_low) AS later_low,
        coalesce(sum(size) FILTER (counts AND after_volume), 0) AS later_volume,
        coalesce(
            sum(price * CAST(size AS DECIMAL(19, 0))) FILTER (counts AND after_volume), 0
        ) AS later_notional,
        count(*) FILTER (counts AND after_volume) AS later_trades,
        coalesce(sum(size) FILTER (uncrossed), 0) AS uncrossed_volume,
        coalesce(sum(price * CAST(size AS DECIMAL(19, 0))) FILTER (uncrossed), 0)
            AS uncrossed_notional,
        coalesce(bool_or(states_volume), false) AS states_volume,
        coalesce(bool_or(states_trades), false) AS states_trades,
        coalesce(bool_or(states_vwap), false) AS states_vwap,
        -- Whether something was published or traded since, and nothing from before has changed.
        count(*) FILTER (after_volume AND (counts OR states_volume AND place > volume_known)) > 0
            AND count(*) FILTER (
                from_before OR is_trade AND corrected AND NOT after_volume
                OR statistic = $bust AND after_volume AND busted_place <= volume_known
            ) = 0 AS volume_comparable,
        count(*) FILTER (
                place > high_known
                AND (counts OR statistic = $high OR states_volume AND place > volume_known)
            ) > 0
            AND count(*) FILTER (
                from_before OR is_trade AND corrected AND NOT after_high
                OR statistic = $bust AND after_high AND busted_place <= high_known
            ) = 0 AS high_comparable,
        count(*) FILTER (
                place > low_known
                AND (counts OR statistic = $low OR states_volume AND place > volume_known)
            ) > 0
            AND count(*) FILTER (
                from_before OR is_trade AND corrected AND NOT after_low
                OR statistic = $bust AND after_low AND busted_place <= low_known
            ) = 0 AS low_comparable,
        -- Its average prices have three decimals, or four.
        CASE WHEN bool_or(stated_vwap <> round(stated_vwap, 3)) THEN CAST(0.0001 AS DECIMAL(5, 4))
            ELSE CAST(0.001 AS DECIMAL(5, 4)) END AS vwap_step,
        CAST(coalesce(arg_max_null(stated_volume, place) FILTER (states_volume), 0)
            AS DECIMAL(19, 0)) AS volume_to,
        CAST(coalesce(
            arg_min_null(stated_volume, place) FILTER (session = 0 AND states_volume), 0
        ) AS DECIMAL(19, 0)) AS volume_from
    FROM compared_rows
    GROUP BY channel, security_id, session, session_start_ns
    -- A value only from a snapshot makes no row.
    HAVING count(*) FILTER (is_trade OR NOT snapshot) > 0
),
agreements AS (
    SELECT *, channel IN (SELECT unnest(CAST($legacy AS SMALLINT[]))) AS legacy,
        session > 0 AS complete,
        published_open IS NOT DISTINCT FROM later_open AS same_open,
        published_high IS NOT DISTINCT FROM greatest(initial_high, later_high) AS same_high,
        published_low IS NOT DISTINCT FROM least(initial_low, later_low) AS same_low,
        volume_to - volume_from = later_volume AS same_volume,
        coalesce(published_trades, 0) - coalesce(initial_trades, 0) = later_trades AS same_trades,
        -- Both ends of an increment are rounded.
        CASE WHEN volume_to = 0 THEN published_vwap IS NULL ELSE coalesce(
            abs(published_vwap * volume_to - coalesce(initial_vwap * volume_from, 0)
                - later_notional) < vwap_step * (volume_to + volume_from),
            false
        ) END AS same_vwap,
        CASE WHEN uncrossed_volume = 0 THEN published_vwap IS NULL ELSE coalesce(
            abs(published_vwap * CAST(uncrossed_volume AS DECIMAL(19, 0)) - uncrossed_notional)
                < vwap_step * CAST(uncrossed_volume AS DECIMAL(19, 0)),
            false
        ) END AS same_uncrossed_vwap
    FROM statistics
),
verdicts AS (
    SELECT *, list_filter([
        {'name': 'open', 'comparable': complete, 'same': same_open},
        {'name': 'high', 'comparable': complete OR high_comparable AND initial_high IS NOT NULL,
            'same': same_high},
        {'name': 'low', 'comparable': complete OR low_comparable AND initial_low IS NOT NULL,
            'same': same_low},
        {'name': 'volume', 'comparable':
            (complete OR volume_comparable) AND (NOT legacy OR states_volume),
            'same': same_volume},
        {'name': 'vwap', 'comparable':
            CASE WHEN legacy THEN complete AND states_vwap ELSE complete OR volume_comparable END,
            'same': CASE WHEN legacy THEN same_uncrossed_vwap ELSE same_vwap END},
        {'name': 'trades', 'comparable':
            CASE WHEN legacy THEN complete AND states_trades ELSE complete OR volume_comparable END,
            'same': same_trades}
    ], lambda one: one.comparable) AS comparisons
    FROM agreements
)
SELECT *, average_price(notional, volume) AS vwap,
    list_transform(comparisons, lambda one: one.name) AS compared,
    list_transform(list_filter(comparisons, lambda one: NOT one.same), lambda one: one.name)
        AS differences,
    CASE WHEN len(comparisons) > 0
        THEN len(list_filter(comparisons, lambda one: NOT one.same)) = 0 END AS equal
FROM verdicts
"""


def session_starts(day: LakeDay) -> DataFrame:
    """Return the session starts: instrument, event key and time of the message."""
    return day.query(
        _STARTS,
        {"session_change": sorted(SESSION_CHANGE)},
        states=day.messages(SECURITY_STATUS),
        phases=day.messages(SECURITY_GROUP_PHASE),
        instruments=day.instruments(),
    )


def session_stats(day: LakeDay, trades: DataFrame) -> DataFrame:
    """Return the day's sessions of every instrument with trades or published statistics."""
    values = {
        "never": _NEVER,
        "legacy": day.legacy_channels,
        "bust": TRADE_BUST,
        "last_trade": LAST_TRADE_PRICE,
        "opening": OPENING_PRICE,
        "high": HIGH_PRICE,
        "low": LOW_PRICE,
        "opening_trade": CONDITIONS["opening"],
        "crossed": CONDITIONS["crossed"],
        "block": CONDITIONS["block"],
    }
    found = day.query(
        _STATISTICS,
        values,
        trades=trades,
        publications=publications(day),
        busts=day.messages(TRADE_BUST),
        starts=session_starts(day),
        published=_published(day, day.messages),
        shown=_published(day, day.in_first_snapshots),
        last_trades=day.in_first_snapshots(LAST_TRADE_PRICE),
    )
    return conform(day.with_symbols(found), COLUMNS)


def _published(day: LakeDay, read: Callable[[int], DataFrame]) -> DataFrame:
    """Return the exchange's statistics of some messages."""
    return day.query(
        _PUBLISHED,
        _CODES,
        executions=read(EXECUTION_STATISTICS),
        openings=read(OPENING_PRICE),
        highs=read(HIGH_PRICE),
        lows=read(LOW_PRICE),
    )


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return session_stats(day, stored_trades(day))


SESSION_STATS = AnalyticsTable(
    "session_stats",
    "Our statistics of a session, compared with the exchange's.",
    COLUMNS,
    _build,
    (
        SECURITY_STATUS,
        SECURITY_GROUP_PHASE,
        EXECUTION_STATISTICS,
        LAST_TRADE_PRICE,
        TRADE,
        FORWARD_TRADE,
        TRADE_BUST,
        SNAPSHOT_HEADER,
        *_PRICES,
    ),
    (INSTRUMENTS, "packets"),
    (TRADES.name,),
    sort_by=("channel", "security_id", "session"),
)
