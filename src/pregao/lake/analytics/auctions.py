"""Table ``auctions``: each auction of an instrument, and its uncrossing price.

An instrument is in an auction while it is reserved or in the final closing call. The trades that
end an auction precede the message of its end, in an earlier event or the same one, and have no
execution summary. They have one price, and no theoretical price or imbalance is published after
them: a trade that market operations enter while the auction goes on is none of them. With them or
earlier, the exchange may withdraw the theoretical price and the imbalance: the result of an auction
is the last value published before that.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import LakeDay
from pregao.lake.analytics.status import STATUS, lines
from pregao.lake.analytics.tables import PRICE, AnalyticsOptions, AnalyticsTable, column, conform
from pregao.lake.analytics.trades import CONDITIONS, TRADES, stored_trades
from pregao.umdf.phases import Status
from pregao.umdf.templates import AUCTION_IMBALANCE, DELETED, THEORETICAL_OPENING_PRICE, flag

KINDS = (Status.RESERVED.name, Status.FINAL_CLOSING_CALL.name)


def _path(*members: tuple[str, Any]) -> Any:
    return pa.list_(pa.field("element", pa.struct([pa.field(*member) for member in members])))


COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("security_group", pa.string(), "Group of the instrument."),
    column("auction", pa.int32(), "Number of the instrument's auction on that day, from 1."),
    column("kind", pa.string(), "RESERVED, or FINAL_CLOSING_CALL."),
    column("own_status", pa.bool_(), "Whether it was called for this instrument alone."),
    column("start_ns", pa.int64(), "Start time."),
    column("end_ns", pa.int64(), "End time; null if it was running at the end of the data."),
    column("scheduled_end_ns", pa.int64(), "Last published estimated end."),
    column("extensions", pa.int32(), "Number of different estimated ends after the first."),
    column("uncross_price", PRICE, "Price of the trades that ended it; null if none did."),
    column("uncross_volume", pa.int64(), "Quantity of these trades."),
    column("uncross_trades", pa.int64(), "Number of these trades."),
    column("theoretical_price", PRICE, "Last theoretical price before the uncrossing."),
    column("theoretical_size", pa.int64(), "Last theoretical quantity before it."),
    column("imbalance_side", pa.string(), "Side with more quantity then; or BALANCED."),
    column("imbalance_size", pa.int64(), "Unmatched quantity then."),
    column(
        "theoretical",
        _path(("time_ns", pa.int64()), ("price", PRICE), ("size", pa.int64())),
        "Theoretical prices in order; a null price withdraws the previous one.",
    ),
    column(
        "imbalances",
        _path(("time_ns", pa.int64()), ("side", pa.string()), ("size", pa.int64())),
        "Imbalances in order; a null side withdraws the previous one.",
    ),
    column("start_event", pa.int64(), "Event of the channel that started it."),
    column("end_event", pa.int64(), "Event of the channel that ended it."),
)

_VALUES = {
    "kinds": list(KINDS),
    "deleted": sorted(DELETED),
    "more_buyers": flag("ImbalanceCondition", "ImbalanceMoreBuyers"),
    "more_sellers": flag("ImbalanceCondition", "ImbalanceMoreSellers"),
    "by_hand": CONDITIONS["crossed"] | CONDITIONS["out_of_sequence"] | CONDITIONS["on_behalf"],
}

_AUCTIONS = """
WITH states AS (
    -- A state from a snapshot is in effect from the last incremental message on.
    SELECT channel, security_id, coalesce(event, "at") AS event, "at" AS place, line,
        security_group, status AS kind, own_status, from_ns, until_ns, auction_end_ns,
        event AS message_event,
        lead(event) OVER in_order AS next_event,
        status IN (SELECT unnest($kinds)) AS in_auction,
        status IS DISTINCT FROM lag(status) OVER in_order AS begins
    FROM lines WHERE security_id IS NOT NULL
    WINDOW in_order AS (PARTITION BY channel, security_id ORDER BY "at", line)
),
changes AS (
    SELECT * EXCLUDE (in_auction, begins), CASE WHEN in_auction THEN CAST(
        count(*) FILTER (in_auction AND begins) OVER (
            PARTITION BY channel, security_id ORDER BY place, line
        ) AS INTEGER) END AS number
    FROM states
),
-- Possible trades of an uncrossing, as they were made: even those that were busted later.
candidates AS (
    SELECT channel, security_id, event, place,
        {'event': event, 'place': place, 'price': original_price, 'size': original_size} AS trade
    FROM trades
    WHERE aggressor_side IS NULL AND trd_sub_type IS NULL AND NOT forward
        AND original_trade_condition & $by_hand = 0
),
prices AS (
    SELECT *, md_update_action NOT IN (SELECT unnest($deleted)) AS stands
    FROM theoretical_prices
),
price_updates AS (
    SELECT channel, security_id, event, place, stands, {
        'place': place, 'event': event, 'time_ns': md_entry_timestamp_ns,
        'price': CASE WHEN stands THEN md_entry_px END,
        'size': CASE WHEN stands THEN md_entry_size END
    } AS price
    FROM prices
),
sides AS (
    SELECT *, md_update_action NOT IN (SELECT unnest($deleted)) AS stands,
        CASE WHEN imbalance_condition & $more_buyers <> 0 THEN 'BUY'
            WHEN imbalance_condition & $more_sellers <> 0 THEN 'SELL'
            ELSE 'BALANCED' END AS side
    FROM imbalances
),
imbalance_updates AS (
    SELECT channel, security_id, event, place, stands, {
        'place': place, 'event': event, 'time_ns': md_entry_timestamp_ns,
        'side': CASE WHEN stands THEN side END,
        'size': CASE WHEN stands THEN md_entry_size END
    } AS imbalance
    FROM sides
),
-- Within an event, what ends an auction (0) precedes the change of state (1), and what follows
-- from it (2) comes after it. A withdrawal belongs to the state before the change.
steps AS (
    SELECT *, 1 AS step FROM changes
    UNION ALL BY NAME SELECT *, 0 AS step FROM candidates
    UNION ALL BY NAME SELECT *, CASE WHEN stands THEN 2 ELSE 0 END AS step FROM price_updates
    UNION ALL BY NAME SELECT *, CASE WHEN stands THEN 2 ELSE 0 END AS step FROM imbalance_updates
),
numbered AS (
    SELECT *, last_value(CASE WHEN step = 1 THEN {'number': number} END IGNORE NULLS) OVER (
        PARTITION BY channel, security_id ORDER BY event, step, place, line ROWS UNBOUNDED PRECEDING
    ).number AS auction
    FROM steps
),
within AS (
    SELECT * FROM numbered WHERE auction IS NOT NULL
),
ended AS (
    SELECT channel, security_id, auction,
        arg_min_null(security_group, line) AS security_group,
        arg_min_null(kind, line) AS kind,
        arg_min_null(own_status, line) AS own_status,
        arg_min_null(from_ns, line) AS start_ns,
        arg_max_null(until_ns, line) AS end_ns,
        arg_max(auction_end_ns, line) AS scheduled_end_ns,
        greatest(count(DISTINCT auction_end_ns) - 1, 0) AS extensions,
        arg_min_null(message_event, line) AS start_event,
        arg_max_null(next_event, line) AS end_event,
        coalesce(list({'time_ns': price.time_ns, 'price': price.price, 'size': price.size}
            ORDER BY place) FILTER (price IS NOT NULL), []) AS theoretical,
        coalesce(list({'time_ns': imbalance.time_ns, 'side': imbalance.side,
            'size': imbalance.size} ORDER BY place) FILTER (imbalance IS NOT NULL), [])
            AS imbalances,
        arg_max(price, place) AS last_price,
        arg_max(price, place) FILTER (stands) AS standing_price,
        arg_max(imbalance, place) AS last_imbalance,
        arg_max(imbalance, place) FILTER (stands) AS standing_imbalance,
        arg_max(trade, place) AS last_trade
    FROM within GROUP BY channel, security_id, auction
),
uncrossings AS (
    SELECT channel, security_id, auction, count(*) AS uncross_trades,
        sum(trade.size) AS uncross_volume, any_value(trade.price) AS uncross_price
    FROM within JOIN ended USING (channel, security_id, auction)
    WHERE within.trade IS NOT NULL AND end_ns IS NOT NULL AND trade.price = last_trade.price
        AND coalesce(standing_price.place < trade.place OR standing_price.event = trade.event, true)
        AND coalesce(
            standing_imbalance.place < trade.place OR standing_imbalance.event = trade.event, true
        )
    GROUP BY channel, security_id, auction
),
-- What was withdrawn only for the end had its last value before that. An imbalance that was
-- withdrawn while prices continued did not exist at the end.
results AS (
    SELECT ended.*, uncross_price, coalesce(uncross_trades, 0) AS uncross_trades,
        coalesce(uncross_volume, 0) AS uncross_volume,
        CASE WHEN uncross_trades > 0 OR last_price.event IS NOT DISTINCT FROM end_event
            THEN standing_price ELSE last_price END AS price,
        CASE WHEN uncross_trades > 0
                AND last_imbalance.place > coalesce(standing_price.place, 0)
                OR last_imbalance.event IS NOT DISTINCT FROM end_event
            THEN standing_imbalance ELSE last_imbalance END AS imbalance
    FROM ended LEFT JOIN uncrossings USING (channel, security_id, auction)
)
SELECT *, price.price AS theoretical_price, price.size AS theoretical_size,
    imbalance.side AS imbalance_side, imbalance.size AS imbalance_size
FROM results
"""


def auctions(day: LakeDay, trades: DataFrame) -> DataFrame:
    """Return the day's auctions."""
    found = day.query(
        _AUCTIONS,
        _VALUES,
        lines=lines(day),
        trades=trades,
        theoretical_prices=day.messages(THEORETICAL_OPENING_PRICE),
        imbalances=day.messages(AUCTION_IMBALANCE),
    )
    return conform(day.with_symbols(found), COLUMNS)


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return auctions(day, stored_trades(day))


AUCTIONS = AnalyticsTable(
    "auctions",
    "Auction of an instrument: its theoretical prices, imbalances and uncrossing.",
    COLUMNS,
    _build,
    (*STATUS.templates, THEORETICAL_OPENING_PRICE, AUCTION_IMBALANCE),
    STATUS.others,
    (TRADES.name,),
    sort_by=("channel", "security_id", "auction"),
)
