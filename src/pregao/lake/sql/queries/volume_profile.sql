-- Volume profile: share of the day's volume in each five-minute bar.
SELECT
  symbol,
  start_time,
  volume,
  CAST(volume AS DOUBLE) / sum(volume) OVER (PARTITION BY date, channel, security_id) AS share
FROM v_bars b
WHERE b.interval = '5m'
ORDER BY symbol, start_time
