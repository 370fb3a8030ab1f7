-- Auctions: duration, uncrossing price and quantity, and remaining imbalance.
SELECT
  symbol,
  auction,
  kind,
  start_time,
  CAST(end_ns - start_ns AS DOUBLE) / 1000000000 AS seconds,
  extensions,
  theoretical_price,
  uncross_price,
  uncross_volume,
  imbalance_side,
  imbalance_size
FROM v_auctions
ORDER BY symbol, auction
