-- Aggressor imbalance (bought minus sold quantity) per instrument and minute.
SELECT
  symbol,
  date_trunc('minute', time) AS minute,
  sum(CASE WHEN aggressor_side = 'BUY' THEN size ELSE 0 END) AS bought,
  sum(CASE WHEN aggressor_side = 'SELL' THEN size ELSE 0 END) AS sold,
  sum(CASE aggressor_side WHEN 'BUY' THEN size WHEN 'SELL' THEN -size ELSE 0 END) AS imbalance
FROM v_trades
WHERE NOT busted
GROUP BY symbol, date_trunc('minute', time)
ORDER BY symbol, minute
