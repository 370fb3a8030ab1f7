-- Bought and sold quantity per firm and instrument, and the firm's share of the volume.
WITH sides AS (
  SELECT symbol, buyer AS firm, size AS bought, 0 AS sold FROM v_trades WHERE NOT busted
  UNION ALL
  SELECT symbol, seller AS firm, 0 AS bought, size AS sold FROM v_trades WHERE NOT busted
), firms AS (
  SELECT symbol, firm, sum(bought) AS bought, sum(sold) AS sold
  FROM sides
  WHERE firm IS NOT NULL
  GROUP BY symbol, firm
)
SELECT
  symbol,
  firm,
  bought,
  sold,
  CAST(bought + sold AS DOUBLE) / sum(bought + sold) OVER (PARTITION BY symbol) AS share
FROM firms
ORDER BY symbol, bought + sold DESC, firm
