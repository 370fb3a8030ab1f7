-- Packets that a feed did not deliver, and what closed the gaps.
SELECT
  date,
  channel,
  coalesce(feed, 'all') AS feed,
  coalesce(closed_by, 'nothing') AS closed_by,
  count(*) AS gaps,
  sum(last_missing - first_missing + 1) AS packets
FROM v_gaps
WHERE security_id IS NULL
GROUP BY date, channel, coalesce(feed, 'all'), coalesce(closed_by, 'nothing')
ORDER BY date, channel, feed, closed_by
