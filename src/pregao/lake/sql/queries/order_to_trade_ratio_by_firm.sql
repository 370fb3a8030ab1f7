-- Order-to-trade ratio (orders entered and changed per trade) by firm.
WITH entered AS (
  SELECT firm, count(*) AS orders, sum(changes) AS changes
  FROM v_orders
  WHERE firm IS NOT NULL AND entry_seen
  GROUP BY firm
), sides AS (
  SELECT buyer AS firm FROM v_trades WHERE NOT busted
  UNION ALL
  SELECT seller AS firm FROM v_trades WHERE NOT busted
), traded AS (
  SELECT firm, count(*) AS trades FROM sides WHERE firm IS NOT NULL GROUP BY firm
)
SELECT
  entered.firm AS firm,
  orders,
  changes,
  coalesce(trades, 0) AS trades,
  CAST(orders + changes AS DOUBLE) / trades AS ratio
FROM entered LEFT JOIN traded ON traded.firm = entered.firm
ORDER BY orders DESC, firm
