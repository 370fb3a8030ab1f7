-- Number and volume of trades by trade condition and subtype.
SELECT
  trade_condition_names AS conditions,
  coalesce(trd_sub_type, '') AS kind,
  count(*) AS trades,
  sum(size) AS volume
FROM v_trades
WHERE NOT busted
GROUP BY trade_condition_names, coalesce(trd_sub_type, '')
ORDER BY conditions, kind
