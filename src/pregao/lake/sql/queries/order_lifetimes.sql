-- Lifetimes of orders in the book, by the reason for which they ended.
SELECT
  symbol,
  coalesce(end_reason, 'in the book') AS ending,
  count(*) AS orders,
  percentile(lifetime_ns, 0.5) / 1000000 AS median_ms,
  percentile(lifetime_ns, 0.9) / 1000000 AS p90_ms
FROM v_orders
WHERE entry_seen
GROUP BY symbol, coalesce(end_reason, 'in the book')
ORDER BY symbol, ending
