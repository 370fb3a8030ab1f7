-- Trades of the legacy feed (UMDF FIX/FAST) with corrections applied, without canceled trades.
WITH entries AS (
  SELECT
    date, channel, security_id, coalesce(md_stream_id, 'E') AS venue, trade_id,
    md_update_action, md_entry_date, md_entry_time, md_entry_px, md_entry_size,
    md_entry_buyer, md_entry_seller,
    row_number() OVER (
      PARTITION BY date, channel, security_id, coalesce(md_stream_id, 'E'), trade_id
      ORDER BY sequence_version DESC, sequence_number DESC, index_in_packet DESC
    ) AS recency
  FROM v_legacy_incremental_refresh
  WHERE md_entry_type = '2' AND coalesce(trade_condition, '') NOT LIKE '%U%'
),
names AS (
  SELECT security_id, max(symbol) AS symbol
  FROM v_legacy_security_list
  GROUP BY security_id
)
SELECT
  names.symbol, entries.security_id, entries.venue, entries.trade_id,
  entries.md_entry_date, entries.md_entry_time,
  entries.md_entry_px AS price, entries.md_entry_size AS size,
  entries.md_entry_buyer AS buyer, entries.md_entry_seller AS seller
FROM entries
LEFT JOIN names ON names.security_id = entries.security_id
WHERE entries.recency = 1 AND entries.md_update_action = 0
ORDER BY entries.security_id, entries.md_entry_date, entries.md_entry_time, entries.trade_id
