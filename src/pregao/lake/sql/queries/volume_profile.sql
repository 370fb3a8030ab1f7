-- How the volume of a day is spread over its five-minute bars.
SELECT
  symbol,
  start_time,
  volume,
  CAST(volume AS DOUBLE) / sum(volume) OVER (PARTITION BY date, channel, security_id) AS share
FROM v_bars b
WHERE b.interval = '5m'
ORDER BY symbol, start_time
