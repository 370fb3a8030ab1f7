-- Effective spread (twice the distance of the trade price from the mid price before the trade) and
-- quoted spread, per instrument.
SELECT
  symbol,
  count(*) AS trades,
  avg(CAST(spread AS DOUBLE)) AS quoted_spread,
  avg(abs(2 * CAST(price AS DOUBLE) - CAST(bid_price + ask_price AS DOUBLE))) AS effective_spread,
  avg(
    abs(2 * CAST(price AS DOUBLE) - CAST(bid_price + ask_price AS DOUBLE))
    / (CAST(bid_price + ask_price AS DOUBLE) / 2) * 10000
  ) AS effective_basis_points
FROM v_trades
WHERE NOT busted AND trades_continuously AND aggressor_side IS NOT NULL AND spread > 0
GROUP BY symbol
ORDER BY symbol
