-- Trades of the legacy feed (UMDF FIX/FAST) with corrections applied, without cancelled trades.
WITH told AS (
  SELECT
    date, channel, security_id, trade_id, md_update_action, md_entry_date, md_entry_time,
    md_entry_px, md_entry_size, md_entry_buyer, md_entry_seller,
    row_number() OVER (
      PARTITION BY date, channel, security_id, trade_id
      ORDER BY sequence_version DESC, sequence_number DESC, index_in_packet DESC
    ) AS newest
  FROM v_legacy_incremental_refresh
  WHERE md_entry_type = '2' AND coalesce(trade_condition, '') NOT LIKE '%U%'
),
names AS (
  SELECT security_id, max(symbol) AS symbol
  FROM v_legacy_security_list
  GROUP BY security_id
)
SELECT
  names.symbol, told.security_id, told.trade_id, told.md_entry_date, told.md_entry_time,
  told.md_entry_px AS price, told.md_entry_size AS size,
  told.md_entry_buyer AS buyer, told.md_entry_seller AS seller
FROM told
LEFT JOIN names ON names.security_id = told.security_id
WHERE told.newest = 1 AND told.md_update_action = 0
ORDER BY told.security_id, told.md_entry_date, told.md_entry_time, told.trade_id
