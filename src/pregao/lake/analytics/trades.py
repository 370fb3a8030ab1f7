"""Table ``trades``: every trade once, with its busts, corrections, kind, aggressor and quotes.

The quotes are the book before and after the trade's event, from the table ``ticks``. Trades outside
the electronic market, which only the legacy feed publishes, are in the table ``venue_trades``: they
are no part of prices and volumes, and their numbers are those of their venue (002 §10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from pregao.feed.legacy.book_updates import ELECTRONIC
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import (
    INSTRUMENTS,
    LakeDay,
    event_key,
)
from pregao.lake.analytics.tables import (
    PRICE,
    AnalyticsOptions,
    AnalyticsTable,
    column,
    conform,
)
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.keys import MESSAGE_KEY, key_field
from pregao.umdf.phases import NOT_LAST_CONDITIONS, NOT_LAST_SUB_TYPES
from pregao.umdf.templates import (
    EXECUTION_SUMMARY,
    FORWARD_TRADE,
    OUT_OF_SEQUENCE,
    TRADE,
    TRADE_BUST,
    current_names,
    flag,
    value_names,
)

TICKS = "ticks"

QUOTE = (
    column("bid_price", PRICE, "Best bid before the event; null without ticks."),
    column("bid_size", pa.int64(), "Quantity at the best bid before the event."),
    column("bid_orders", pa.int32(), "Orders at the best bid before the event."),
    column("ask_price", PRICE, "Best offer before the event; null without ticks."),
    column("ask_size", pa.int64(), "Quantity at the best offer before the event."),
    column("ask_orders", pa.int32(), "Orders at the best offer before the event."),
    column("spread", PRICE, "Best offer minus best bid before the event."),
)
"""Columns of the book before an event."""

_STALE = "stale"

CONDITIONS = {
    "opening": flag("TradeCondition", "OpeningPrice"),
    "crossed": flag("TradeCondition", "Crossed"),
    "same_price": flag("TradeCondition", "LastTradeAtTheSamePrice"),
    "out_of_sequence": OUT_OF_SEQUENCE,
    "on_behalf": flag("TradeCondition", "TradeOnBehalf"),
    "regular": flag("TradeCondition", "RegularTrade"),
    "block": flag("TradeCondition", "BlockTrade"),
}
"""Flags of tradeCondition that have their own column."""
KINDS = {"multi_asset": 101, "leg": 102, "rlp": 106, "sweep": 109}
"""Values of trdSubType that have their own column."""
_SUB_TYPES = current_names("TrdSubType")
_AGGRESSORS = current_names("AggressorSide")

_FORWARD_COLUMNS = (
    column("seller_days", pa.int32(), "Days until delivery of a forward."),
    column("md_entry_interest_rate", PRICE, "Interest rate of a forward."),
)

COLUMNS = (
    key_field("channel"),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("trade_date", pa.date32(), "Trading day to which the exchange assigns it."),
    column("trade_id", pa.int64(), "Number of the trade, unique for instrument and trading day."),
    column("venue", pa.string(), "E, the electronic market; others are in `venue_trades`."),
    column("trading_session_id", pa.string(), "Regular session or after-market."),
    column("time_ns", pa.int64(), "Time of the trade (T5; below schema version 15, T10)."),
    column("price", PRICE, "Price, as corrected."),
    column("size", pa.int64(), "Quantity, as corrected."),
    column("buyer", pa.int64(), "Buying firm."),
    column("seller", pa.int64(), "Selling firm."),
    column("aggressor_side", pa.string(), "Side of the aggressor; null without summary."),
    column(
        "aggressor_time_ns", pa.int64(), "Time when the engine received the aggressor (its T4)."
    ),
    column(
        "sets_last_price",
        pa.bool_(),
        "Whether it set the last price: first published as no leg and not out of sequence.",
    ),
    column("busted", pa.bool_(), "Whether it was busted; it then counts nowhere."),
    column("bust_time_ns", pa.int64(), "Time of the bust."),
    column("corrected", pa.bool_(), "Whether it was published again under its number."),
    column("correction_time_ns", pa.int64(), "Time that the last correction carries."),
    column("publications", pa.int32(), "Number of publications."),
    column("original_price", PRICE, "Price when it was first published."),
    column("original_size", pa.int64(), "Quantity when it was first published."),
    column("original_trade_condition", pa.int32(), "Conditions when it was first published."),
    column("trade_condition", pa.int32(), "Its conditions, as bits."),
    column("trd_sub_type", pa.string(), "Its kind, if it is not a regular trade."),
    column("opening", pa.bool_(), "One of the trades that opened the session."),
    column("crossed", pa.bool_(), "Both sides by one cross order."),
    column("same_price", pa.bool_(), "Same price as the previous trade."),
    column(
        "out_of_sequence", pa.bool_(), "Reported late: not a last price; null on the legacy feed."
    ),
    column(
        "on_behalf", pa.bool_(), "Entered or corrected by the exchange; null on the legacy feed."
    ),
    column("regular", pa.bool_(), "A regular trade; null on the legacy feed."),
    column(
        "block",
        pa.bool_(),
        "A block trade: midpoint, block book, request for quote; null on the legacy feed.",
    ),
    column("multi_asset", pa.bool_(), "The spot part of a forward with spot."),
    column("leg", pa.bool_(), "The leg of a strategy: not a last price; null on the legacy feed."),
    column("rlp", pa.bool_(), "With a retail liquidity provider; null on the legacy feed."),
    column(
        "sweep",
        pa.bool_(),
        "The part of a sweep-and-cross that swept the book; null on the legacy feed.",
    ),
    column("implied", pa.bool_(), "Involves an implied order; null below schema version 10."),
    column("forward", pa.bool_(), "A forward trade (template 54)."),
    *_FORWARD_COLUMNS,
    *QUOTE,
    column("event", pa.int64(), "Event of the channel in which it was first published."),
    key_field("sequence_version", "Sequence version of that packet."),
    key_field("sequence_number", "Number of that packet."),
    key_field("index_in_packet", "Index of the message in that packet."),
    key_field("sending_time_ns", "Sending time of that packet (T11)."),
    key_field("capture_time_ns", "Capture time of that packet."),
)

_VENUE_NAMES = (
    "channel", "security_id", "symbol", "venue", "trade_date", "trade_id", "time_ns", "price",
    "size", "buyer", "seller", "busted", "bust_time_ns", "corrected", "correction_time_ns",
    "publications", "original_price", "original_size", "trade_condition", "trd_sub_type",
    "crossed", "forward", *(field.name for field in _FORWARD_COLUMNS), "event",
    "sequence_version", "sequence_number", "index_in_packet", "sending_time_ns",
    "capture_time_ns",
)  # fmt: skip
_VENUE = column("venue", pa.string(), "X ex-pit, S surveillance, O exercise, C over the counter.")
_VENUE_ID = column(
    "trade_id", pa.int64(), "Number of the trade, unique for instrument, trading day and venue."
)
VENUE_COLUMNS = tuple(
    {"venue": _VENUE, "trade_id": _VENUE_ID}.get(name)
    or next(field for field in COLUMNS if field.name == name)
    for name in _VENUE_NAMES
)
"""Columns of the trades outside the electronic market."""

_PUBLICATIONS = """
WITH messages AS (
    SELECT NULL::DATE AS date WHERE false
    UNION ALL BY NAME SELECT *, false AS forward FROM trade_messages
    UNION ALL BY NAME SELECT *, true AS forward FROM forward_messages
)
SELECT channel, security_id, venue, trade_date, trade_id, place, event, sequence_version,
    sequence_number, index_in_packet, sending_time_ns, capture_time_ns, trading_session_id,
    trade_condition, implied, forward, seller_days, md_entry_interest_rate,
    coalesce(transact_time_ns, md_entry_timestamp_ns) AS time_ns,
    md_entry_px AS price, md_entry_size AS size, md_entry_buyer AS buyer,
    md_entry_seller AS seller,
    coalesce($sub_type_names[list_position($sub_types, trd_sub_type)], trd_sub_type)
        AS trd_sub_type,
    coalesce(date, $date) AS sent,
    -- Event keys restart on some days.
    CAST(date_diff('day', DATE '1970-01-01', coalesce(date, $date)) AS HUGEINT)
        * 10000000000000000000 + place AS turn
FROM messages
"""
"""Every publication of trades and forwards; ``turn`` orders those of several days."""

_TRADES = """
WITH once AS (
    SELECT channel, security_id, venue, trade_date, trade_id,
        arg_min({
            'sent': sent, 'place': place, 'event': event, 'time_ns': time_ns,
            'sequence_version': sequence_version, 'sequence_number': sequence_number,
            'index_in_packet': index_in_packet, 'sending_time_ns': sending_time_ns,
            'capture_time_ns': capture_time_ns, 'price': price, 'size': size,
            'trade_condition': trade_condition, 'trd_sub_type': trd_sub_type
        }, turn) AS original,
        -- What a correction may change.
        arg_max({
            'time_ns': time_ns, 'trading_session_id': trading_session_id, 'price': price,
            'size': size, 'buyer': buyer, 'seller': seller, 'trade_condition': trade_condition,
            'trd_sub_type': trd_sub_type, 'implied': implied, 'forward': forward,
            'seller_days': seller_days, 'md_entry_interest_rate': md_entry_interest_rate
        }, turn) AS latest,
        max(turn) AS latest_turn,
        count(*) AS publications
    FROM publications GROUP BY ALL
),
bust_turns AS (
    SELECT channel, security_id, venue, trade_date, trade_id,
        coalesce(transact_time_ns, md_entry_timestamp_ns) AS time_ns,
        CAST(date_diff('day', DATE '1970-01-01', coalesce(date, $date)) AS HUGEINT)
            * 10000000000000000000 + place AS turn
    FROM (SELECT NULL::DATE AS date WHERE false UNION ALL BY NAME SELECT * FROM bust_messages)
),
busts AS (
    SELECT channel, security_id, venue, trade_date, trade_id, max(turn) AS bust_turn,
        arg_max_null(time_ns, turn) AS bust_time_ns
    FROM bust_turns GROUP BY ALL
),
-- A trade belongs to the day of its first publication. One published again after its bust is
-- valid.
made AS (
    SELECT once.* EXCLUDE (original, latest), original.* EXCLUDE
            (sent, price, size, trade_condition, trd_sub_type),
        original.price AS original_price, original.size AS original_size,
        original.trade_condition AS original_trade_condition,
        original.trd_sub_type AS original_trd_sub_type,
        latest.* EXCLUDE (time_ns), publications > 1 AS corrected,
        CASE WHEN publications > 1 THEN latest.time_ns END AS correction_time_ns,
        coalesce(bust_turn > latest_turn, false) AS busted,
        CASE WHEN bust_turn > latest_turn THEN bust_time_ns END AS bust_time_ns,
        list_contains(CAST($legacy AS SMALLINT[]), channel) AS legacy
    FROM once LEFT JOIN busts USING (channel, security_id, venue, trade_date, trade_id)
    WHERE original.sent = $date
),
flagged AS (
    SELECT *,
        -- The first publication decides: a correction is out of sequence unless it is of the last
        -- trade, and takes no price back.
        original_trade_condition & $not_last_conditions = 0
            AND NOT coalesce(list_contains($not_last_sub_types, original_trd_sub_type), false)
            AS sets_last_price,
        trade_condition & $opening <> 0 AS opening,
        trade_condition & $crossed <> 0 AS crossed,
        trade_condition & $same_price <> 0 AS same_price,
        -- The legacy feed does not state these.
        CASE WHEN NOT legacy THEN trade_condition & $out_of_sequence <> 0 END AS out_of_sequence,
        CASE WHEN NOT legacy THEN trade_condition & $on_behalf <> 0 END AS on_behalf,
        CASE WHEN NOT legacy THEN trade_condition & $regular <> 0 END AS regular,
        CASE WHEN NOT legacy THEN trade_condition & $block <> 0 END AS block,
        coalesce(list_contains($multi_asset, trd_sub_type), false) AS multi_asset,
        CASE WHEN NOT legacy THEN coalesce(list_contains($leg, trd_sub_type), false) END AS leg,
        CASE WHEN NOT legacy THEN coalesce(list_contains($rlp, trd_sub_type), false) END AS rlp,
        CASE WHEN NOT legacy THEN coalesce(list_contains($sweep, trd_sub_type), false) END AS sweep
    FROM made
)
"""

_WITH_QUOTES = """,
-- The aggressor is that of the summary that precedes a trade in its event.
aggressors AS (
    SELECT channel, security_id, event, place,
        coalesce($aggressor_names[list_position($aggressors, aggressor_side)], aggressor_side)
            AS aggressor_side,
        aggressor_time_ns
    FROM summaries
),
-- A tick is the book after its event; of a loaded snapshot, after the last packet in it.
books AS (
    SELECT channel, security_id, coalesce(
            event,
            CAST(sequence_version AS BIGINT) * $event_version
                + (sequence_number + 1) * $event_number - 1
        ) AS event,
        state <> $stale AS trusted, bid_price_1, bid_size_1, bid_orders_1,
        ask_price_1, ask_size_1, ask_orders_1
    FROM ticks
    WHERE (channel, security_id) IN (SELECT (channel, security_id) FROM flagged)
),
quotes AS (
    SELECT channel, security_id, event,
        CASE WHEN trusted THEN bid_price_1 END AS bid_price,
        CASE WHEN trusted THEN bid_size_1 END AS bid_size,
        CASE WHEN trusted THEN bid_orders_1 END AS bid_orders,
        CASE WHEN trusted THEN ask_price_1 END AS ask_price,
        CASE WHEN trusted THEN ask_size_1 END AS ask_size,
        CASE WHEN trusted THEN ask_orders_1 END AS ask_orders
    FROM books
)
SELECT trade.*, aggressor.aggressor_side, aggressor.aggressor_time_ns,
    quote.* EXCLUDE (channel, security_id, event), ask_price - bid_price AS spread
FROM flagged AS trade
ASOF LEFT JOIN aggressors AS aggressor
    ON trade.channel = aggressor.channel AND trade.security_id = aggressor.security_id
    AND trade.event = aggressor.event AND trade.place > aggressor.place
ASOF LEFT JOIN quotes AS quote
    ON trade.channel = quote.channel AND trade.security_id = quote.security_id
    AND trade.event > quote.event
"""
_WITHOUT_QUOTES = """
SELECT * FROM flagged
"""
_TICKS = (
    "channel smallint, security_id bigint, event bigint, sequence_version int, "
    "sequence_number bigint, state string, bid_price_1 decimal(18,4), bid_size_1 bigint, "
    "bid_orders_1 int, ask_price_1 decimal(18,4), ask_size_1 bigint, ask_orders_1 int"
)
"""Columns of the best prices, of a day without ticks."""


# --- Trades ---


def trades(day: LakeDay) -> DataFrame:
    """Return the day's trades, with the best prices before each where there are ticks."""
    none = day.session.createDataFrame([], _TICKS)
    found = _query(
        day,
        _TRADES + _WITH_QUOTES,
        {
            "aggressors": list(_AGGRESSORS),
            "aggressor_names": list(_AGGRESSORS.values()),
            "event_version": EVENT_VERSION,
            "event_number": EVENT_NUMBER,
            "stale": _STALE,
        },
        _electronic(day),
        publications=_publications(day, _electronic(day)),
        summaries=day.messages(EXECUTION_SUMMARY),
        ticks=day.table(TICKS) if day.has(TICKS) else none,
    )
    return conform(day.with_symbols(found), COLUMNS)


def venue_trades(day: LakeDay) -> DataFrame:
    """Return the day's trades outside the electronic market."""
    published = _publications(day, day.venue_trades)
    statement = _TRADES + _WITHOUT_QUOTES
    found = _query(day, statement, {}, day.venue_trades, publications=published)
    return conform(day.with_symbols(found), VENUE_COLUMNS)


def _query(
    day: LakeDay,
    statement: str,
    values: Mapping[str, Any],
    messages: Callable[[int], DataFrame],
    **views: DataFrame,
) -> DataFrame:
    """Return the rows of a statement over publications and busts of trades."""
    own = {
        "date": day.date,
        "legacy": day.legacy_channels,
        "not_last_conditions": NOT_LAST_CONDITIONS,
        "not_last_sub_types": sorted(NOT_LAST_SUB_TYPES),
        **CONDITIONS,
        **{name: sorted(value_names("TrdSubType", value)) for name, value in KINDS.items()},
    }
    return day.query(statement, {**own, **values}, bust_messages=messages(TRADE_BUST), **views)


def publications(day: LakeDay) -> DataFrame:
    """Return the publications of trades that were sent on the day, corrections too."""
    found = _publications(day, _electronic(day))
    return found.where(F.col("sent") == F.lit(day.date))


def _electronic(day: LakeDay) -> Callable[[int], DataFrame]:
    """Return the reader of the messages of the electronic market."""
    return lambda template: day.dated_messages(template).withColumn("venue", F.lit(ELECTRONIC))


def _publications(day: LakeDay, messages: Callable[[int], DataFrame]) -> DataFrame:
    """Return the publications of trades and forwards."""

    def with_implied(template: int) -> DataFrame:
        found = messages(template)
        return found.withColumn("implied", day.is_implied(found))

    return day.query(
        _PUBLICATIONS,
        {
            "date": day.date,
            "sub_types": list(_SUB_TYPES),
            "sub_type_names": list(_SUB_TYPES.values()),
        },
        trade_messages=with_implied(TRADE),
        forward_messages=with_implied(FORWARD_TRADE),
    )


def stored_trades(day: LakeDay) -> DataFrame:
    """Return the rows of the written table, with their event keys."""
    return day.table(TRADES.name).withColumn("place", event_key())


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return trades(day)


TRADES = AnalyticsTable(
    "trades",
    "Trade, with busts and corrections applied, its kind, and its aggressor.",
    COLUMNS,
    _build,
    (TRADE, FORWARD_TRADE, EXECUTION_SUMMARY, TRADE_BUST),
    (INSTRUMENTS, TICKS),
    sort_by=("channel", "security_id", *MESSAGE_KEY),
)
VENUE_TRADES = AnalyticsTable(
    "venue_trades",
    "Trade of the legacy feed outside the electronic market, with busts and corrections applied.",
    VENUE_COLUMNS,
    lambda day, _wanted: venue_trades(day),
    (TRADE, FORWARD_TRADE, TRADE_BUST),
    (INSTRUMENTS,),
    sort_by=("channel", "security_id", *MESSAGE_KEY),
)
