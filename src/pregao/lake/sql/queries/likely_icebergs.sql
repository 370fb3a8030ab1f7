-- Likely icebergs: consecutive orders of the same firm, side and price that appear to be one order.
SELECT
  symbol,
  chain,
  max(firm) AS firm,
  max(side) AS side,
  max(price) AS price,
  count(*) AS parts,
  sum(filled_quantity) AS filled
FROM v_orders
WHERE chain IS NOT NULL
GROUP BY symbol, chain
HAVING count(*) > 1
ORDER BY filled DESC, symbol, chain
