"""Table ``trades``: every trade once, with its busts, corrections, kind, aggressor and quotes.

The quotes are the book before and after the trade's event, from the table ``ticks``. Trades outside
the electronic market, which only the legacy feed publishes, are in the table ``venue_trades``: they
are no part of prices and volumes, and their numbers are those of their venue (002 §10).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from pregao.feed.legacy.book_updates import ELECTRONIC
from pregao.lake.analytics.engine import Column, DataFrame, F, Window
from pregao.lake.analytics.reading import (
    INSTRUMENT,
    INSTRUMENTS,
    LakeDay,
    bit,
    event_key,
    one_name,
)
from pregao.lake.analytics.tables import (
    PRICE,
    AnalyticsOptions,
    AnalyticsTable,
    column,
    conform,
    missing,
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

_BEST = [field.name for field in QUOTE if field.name != "spread"]
_SIDES = {"BUY": "bid", "SELL": "ask"}
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
        "Whether it set the last price: when first published neither out of sequence nor a leg.",
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
    column("out_of_sequence", pa.bool_(), "Reported late: not a last price."),
    column("on_behalf", pa.bool_(), "Entered or corrected by the exchange."),
    column("regular", pa.bool_(), "A regular trade."),
    column("block", pa.bool_(), "A block trade: midpoint, block book, request for quote."),
    column("multi_asset", pa.bool_(), "The spot part of a forward with spot."),
    column("leg", pa.bool_(), "The leg of a strategy: not a last price."),
    column("rlp", pa.bool_(), "With a retail liquidity provider."),
    column("sweep", pa.bool_(), "The part of a sweep-and-cross that swept the book."),
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

_IDENTITY = [*INSTRUMENT, "venue", "trade_date", "trade_id"]
_ORIGINAL = ["place", "event", *MESSAGE_KEY, "time_ns", "sending_time_ns", "capture_time_ns"]
"""Columns that only the first publication sets."""
_FIRST_PUBLISHED = ["price", "size", "trade_condition", "trd_sub_type"]
"""Columns of the first publication that a correction may have changed."""
_LATEST = [
    "trading_session_id", "price", "size", "buyer", "seller", "trade_condition", "trd_sub_type",
    "implied", "forward", "seller_days", "md_entry_interest_rate",
]  # fmt: skip
"""Columns that a correction may change."""


# --- Quotes ---


def with_quotes(day: LakeDay, frame: DataFrame) -> DataFrame:
    """Add to rows with an event the best prices before it."""
    concerned = F.broadcast(frame.select(*INSTRUMENT).distinct())
    ticks = day.table(TICKS).join(concerned, list(INSTRUMENT), "left_semi")
    trusted = F.col("state") != _STALE
    best = [F.when(trusted, F.col(f"{name}_1")).alias(name) for name in _BEST]
    known = ticks.select(*INSTRUMENT, _after().alias("event"), F.struct(*best).alias("quote"))
    both = frame.withColumn("is_tick", F.lit(0)).unionByName(
        known.withColumn("is_tick", F.lit(1)), allowMissingColumns=True
    )
    # A tick is the book after its event.
    so_far = Window.partitionBy(*INSTRUMENT).orderBy("event", "is_tick")
    found = both.withColumn("before", F.last("quote", ignorenulls=True).over(so_far)).where(
        F.col("is_tick") == 0
    )
    return found.select(
        *frame.columns,
        *[F.col(f"before.{name}") for name in _BEST],
        (F.col("before.ask_price") - F.col("before.bid_price")).alias("spread"),
    )


def _after() -> Column:
    """Return the event of a tick; for a loaded snapshot, the key after its last packet."""
    packet = F.col("sequence_version").cast("bigint") * EVENT_VERSION
    packet = packet + (F.col("sequence_number") + 1) * EVENT_NUMBER - 1
    return F.coalesce(F.col("event"), packet)


# --- Trades ---


def trades(day: LakeDay) -> DataFrame:
    """Return the day's trades, with the best prices before each where there are ticks."""
    plain = _without_quotes(day)
    quoted = with_quotes(day, plain) if day.has(TICKS) else plain.select("*", *missing(QUOTE))
    return conform(day.with_symbols(quoted), COLUMNS)


def venue_trades(day: LakeDay) -> DataFrame:
    """Return the day's trades outside the electronic market."""
    return conform(day.with_symbols(_once(day, day.venue_trades)), VENUE_COLUMNS)


def _without_quotes(day: LakeDay) -> DataFrame:
    """Return the day's trades from messages alone."""

    kinds = _once(day, _electronic(day))
    return _with_aggressor(day, kinds.withColumn("sets_last_price", _sets_last_price()))


def publications(day: LakeDay) -> DataFrame:
    """Return every publication of the day's trades, corrections too."""
    return _publications(day, _electronic(day))


def _electronic(day: LakeDay) -> Callable[[int], DataFrame]:
    """Return the reader of the messages of the electronic market."""
    return lambda template: day.messages(template).withColumn("venue", F.lit(ELECTRONIC))


def _once(day: LakeDay, messages: Callable[[int], DataFrame]) -> DataFrame:
    """Return each trade of these messages once; ``place`` is that of its first publication."""
    once = (
        _publications(day, messages)
        .groupBy(*_IDENTITY)
        .agg(
            F.min_by(F.struct(*_ORIGINAL, *_FIRST_PUBLISHED), "place").alias("original"),
            F.max_by(F.struct("place", "time_ns", *_LATEST), "place").alias("latest"),
            F.count(F.lit(1)).cast("int").alias("publications"),
        )
    )
    busts = (
        messages(TRADE_BUST)
        .groupBy(*_IDENTITY)
        .agg(F.max_by(F.struct("place", event_time().alias("time_ns")), "place").alias("bust"))
    )
    joined = once.join(busts, _IDENTITY, "left").select(
        *_IDENTITY,
        *[F.col(f"original.{name}") for name in _ORIGINAL],
        *[F.col(f"original.{name}").alias(f"original_{name}") for name in _FIRST_PUBLISHED],
        *[F.col(f"latest.{name}") for name in _LATEST],
        "publications",
        (F.col("publications") > 1).alias("corrected"),
        F.when(F.col("publications") > 1, F.col("latest.time_ns")).alias("correction_time_ns"),
        # A trade published again after its bust is valid.
        F.coalesce(F.col("bust.place") > F.col("latest.place"), F.lit(False)).alias("busted"),
        F.col("bust.time_ns").alias("published_bust_ns"),
    )
    return joined.select(
        "*",
        F.when(F.col("busted"), F.col("published_bust_ns")).alias("bust_time_ns"),
        *[bit("trade_condition", mask).alias(name) for name, mask in CONDITIONS.items()],
        *[
            F.coalesce(
                F.col("trd_sub_type").isin(*sorted(value_names("TrdSubType", value))), F.lit(False)
            ).alias(name)
            for name, value in KINDS.items()
        ],
    )


def _sets_last_price() -> Column:
    """Return the rule of `pregao.umdf.phases` as a column, for the first publication.

    A correction is out of sequence unless it is of the last trade; it takes no price back.
    """
    sub_type = F.col("original_trd_sub_type")
    excluded = F.coalesce(sub_type.isin(*sorted(NOT_LAST_SUB_TYPES)), F.lit(False))
    return ~bit("original_trade_condition", NOT_LAST_CONDITIONS) & ~excluded


def stored_trades(day: LakeDay) -> DataFrame:
    """Return the rows of the written table, with their event keys."""
    return day.table(TRADES.name).withColumn("place", event_key())


def event_time() -> Column:
    """Return the event time: T5 if the message has it, else T10."""
    return F.coalesce("transact_time_ns", "md_entry_timestamp_ns")


def _publications(day: LakeDay, messages: Callable[[int], DataFrame]) -> DataFrame:
    """Return the publications of trades and forwards."""
    return _published(day, messages, TRADE).unionByName(_published(day, messages, FORWARD_TRADE))


def _published(day: LakeDay, messages: Callable[[int], DataFrame], template: int) -> DataFrame:
    """Return the publications of trades of one template."""
    found = messages(template)
    own = [F.col(field.name) for field in _FORWARD_COLUMNS]
    return found.select(
        *_IDENTITY,
        *[name for name in _ORIGINAL if name != "time_ns"],
        event_time().alias("time_ns"),
        "trading_session_id",
        F.col("md_entry_px").alias("price"),
        F.col("md_entry_size").alias("size"),
        F.col("md_entry_buyer").alias("buyer"),
        F.col("md_entry_seller").alias("seller"),
        "trade_condition",
        one_name("trd_sub_type", _SUB_TYPES).alias("trd_sub_type"),
        day.is_implied(found).alias("implied"),
        F.lit(template == FORWARD_TRADE).alias("forward"),
        *(own if template == FORWARD_TRADE else missing(_FORWARD_COLUMNS)),
    )


def _with_aggressor(day: LakeDay, frame: DataFrame) -> DataFrame:
    """Add the aggressor from the summary that precedes the trades in their event."""
    keys = [*INSTRUMENT, "event"]
    summaries = (
        day.messages(EXECUTION_SUMMARY)
        .groupBy(*keys)
        .agg(
            F.sort_array(
                F.collect_list(
                    F.struct(
                        F.col("place").alias("at"),
                        one_name("aggressor_side", _AGGRESSORS).alias("side"),
                        F.col("aggressor_time_ns").alias("time_ns"),
                    )
                )
            ).alias("summaries")
        )
    )
    ahead = F.filter("summaries", lambda summary: summary["at"] < F.col("place"))
    joined = frame.join(summaries, keys, "left").withColumn(
        "summary", F.try_element_at(ahead, F.lit(-1))
    )
    return joined.select(
        *frame.columns,
        F.col("summary.side").alias("aggressor_side"),
        F.col("summary.time_ns").alias("aggressor_time_ns"),
    )


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
