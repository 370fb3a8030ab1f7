-- Open, high, low, close and volume per instrument and day.
SELECT
  date, symbol, b.open AS open, high, low, b.close AS close, volume, trades, vwap
FROM v_bars b
WHERE b.interval = '1d'
ORDER BY date, symbol
