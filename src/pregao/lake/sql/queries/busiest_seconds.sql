-- The 20 seconds with the most messages on the incremental stream.
SELECT
  channel,
  date_trunc('second', sending_time) AS second,
  sum(message_count) AS messages,
  count(*) AS packets,
  sum(size) AS bytes
FROM v_packets
WHERE stream = 'incremental' AND outcome = 'decoded'
GROUP BY channel, date_trunc('second', sending_time)
ORDER BY messages DESC, channel, second
LIMIT 20
