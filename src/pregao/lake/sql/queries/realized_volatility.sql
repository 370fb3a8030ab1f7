-- Realized volatility: standard deviation of the log returns of one-second bars.
WITH returns AS (
  SELECT
    symbol,
    ln(CAST(b.close AS DOUBLE)) - lag(ln(CAST(b.close AS DOUBLE))) OVER (
      PARTITION BY date, channel, security_id ORDER BY start_ns
    ) AS change
  FROM v_bars b
  WHERE b.interval = '1s' AND b.close > 0
)
SELECT symbol, count(change) AS returns, stddev_samp(change) AS volatility
FROM returns
GROUP BY symbol
ORDER BY symbol
