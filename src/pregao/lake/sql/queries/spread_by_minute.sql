-- Time-weighted quoted spread per instrument and minute of continuous trading.
-- A quote counts in the minute in which it began. Auctions are excluded, as their books cross.
WITH quotes AS (
  SELECT
    symbol,
    date_trunc('minute', event_time) AS minute,
    ask_price_1 - bid_price_1 AS spread,
    trades_continuously AND state = 'valid' AS counts,
    lead(event_time_ns) OVER (
      PARTITION BY date, channel, security_id ORDER BY sequence_version, sequence_number, event
    ) - event_time_ns AS duration_ns
  FROM v_ticks
)
SELECT
  symbol,
  minute,
  count(*) AS quotes,
  min(spread) AS narrowest,
  max(spread) AS widest,
  sum(CAST(spread AS DOUBLE) * duration_ns) / sum(duration_ns) AS spread
FROM quotes
WHERE counts AND spread IS NOT NULL AND duration_ns > 0
GROUP BY symbol, minute
ORDER BY symbol, minute
