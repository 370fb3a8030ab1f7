-- Quantity within three price steps of the best price, at the end of each minute.
WITH last_of_minute AS (
  SELECT
    t.*,
    date_trunc('minute', event_time) AS minute,
    row_number() OVER (
      PARTITION BY date, channel, security_id, date_trunc('minute', event_time)
      ORDER BY sequence_version DESC, sequence_number DESC, event DESC
    ) AS recency
  FROM v_ticks t
  WHERE trades_continuously AND state = 'valid'
), stepped AS (
  SELECT
    l.*,
    CAST(
      coalesce(
        i.min_price_increment,
        i.min_price_increment_v9,
        i.min_price_increment_v8,
        i.min_price_increment_v7
      ) AS DECIMAL(18, 4)
    ) AS step
  FROM last_of_minute l JOIN v_instruments i
    ON i.date = l.date AND i.channel = l.channel AND i.security_id = l.security_id
  WHERE recency = 1
)
SELECT
  symbol,
  minute,
  bid_price_1 AS bid,
  ask_price_1 AS ask,
  CASE WHEN bid_price_1 IS NULL THEN 0 ELSE bid_size_1 END
  + CASE WHEN bid_price_2 >= bid_price_1 - 3 * step THEN bid_size_2 ELSE 0 END
  + CASE WHEN bid_price_3 >= bid_price_1 - 3 * step THEN bid_size_3 ELSE 0 END
  + CASE WHEN bid_price_4 >= bid_price_1 - 3 * step THEN bid_size_4 ELSE 0 END AS bid_depth,
  CASE WHEN ask_price_1 IS NULL THEN 0 ELSE ask_size_1 END
  + CASE WHEN ask_price_2 <= ask_price_1 + 3 * step THEN ask_size_2 ELSE 0 END
  + CASE WHEN ask_price_3 <= ask_price_1 + 3 * step THEN ask_size_3 ELSE 0 END
  + CASE WHEN ask_price_4 <= ask_price_1 + 3 * step THEN ask_size_4 ELSE 0 END AS ask_depth
FROM stepped
ORDER BY symbol, minute
