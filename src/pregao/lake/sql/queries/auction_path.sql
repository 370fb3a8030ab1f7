-- Theoretical prices and imbalances of auctions, in the order of publication.
WITH published AS (
  SELECT
    date, channel, symbol, sending_time, event, md_update_action,
    md_entry_px AS theoretical_price, md_entry_size AS size, CAST(NULL AS STRING) AS imbalance
  FROM v_umdf_theoretical_opening_price_16
  WHERE stream = 'incremental'
  UNION ALL
  SELECT
    date, channel, symbol, sending_time, event, md_update_action,
    CAST(NULL AS DECIMAL(18, 4)), md_entry_size, imbalance_condition_names
  FROM v_umdf_auction_imbalance_19
  WHERE stream = 'incremental'
)
SELECT
  symbol, sending_time, md_update_action AS action, theoretical_price, imbalance, size
FROM published
ORDER BY symbol, event, theoretical_price, imbalance, size
