-- Trading phases of the security groups, with start and end.
SELECT
  date, channel, security_group, status, from_time, until_time,
  CAST(until_ns - from_ns AS DOUBLE) / 1000000000 AS seconds
FROM v_status
WHERE security_id IS NULL
ORDER BY date, channel, security_group, from_ns, event
