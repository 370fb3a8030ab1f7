-- Busted and corrected trades, with the seconds until the bust or correction.
SELECT
  symbol,
  trade_id,
  time,
  original_price,
  price,
  original_size,
  size,
  busted,
  corrected,
  CAST(coalesce(bust_time_ns, correction_time_ns) - time_ns AS DOUBLE) / 1000000000 AS seconds
FROM v_trades
WHERE busted OR corrected
ORDER BY symbol, trade_id
