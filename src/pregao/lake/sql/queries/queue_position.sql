-- Share of orders that trade, by their queue position at entry.
SELECT
  symbol,
  CASE
    WHEN queue_position <= 1 THEN 'first'
    WHEN queue_position <= 3 THEN '2 to 3'
    WHEN queue_position <= 10 THEN '4 to 10'
    ELSE 'over 10'
  END AS position,
  count(*) AS orders,
  sum(CASE WHEN fills > 0 THEN 1 ELSE 0 END) AS filled,
  avg(CASE WHEN fills > 0 THEN 1.0E0 ELSE 0.0E0 END) AS share
FROM v_orders
WHERE entry_seen AND queue_position IS NOT NULL
GROUP BY
  symbol,
  CASE
    WHEN queue_position <= 1 THEN 'first'
    WHEN queue_position <= 3 THEN '2 to 3'
    WHEN queue_position <= 10 THEN '4 to 10'
    ELSE 'over 10'
  END
ORDER BY symbol, position
