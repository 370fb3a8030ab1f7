-- Volume-weighted average price per instrument and minute.
SELECT
  symbol,
  date_trunc('minute', time) AS minute,
  count(*) AS trades,
  sum(size) AS volume,
  CAST(sum(price * size) AS DOUBLE) / sum(size) AS vwap
FROM v_trades
WHERE NOT busted
GROUP BY symbol, date_trunc('minute', time)
ORDER BY symbol, minute
