-- How often feed A delivers a packet before feed B, and by how many nanoseconds.
WITH pairs AS (
  SELECT a.channel AS channel, b.capture_time_ns - a.capture_time_ns AS lead_ns
  FROM v_packets a JOIN v_packets b
    ON a.date = b.date AND a.channel = b.channel
    AND a.sequence_version = b.sequence_version AND a.sequence_number = b.sequence_number
  WHERE a.stream = 'incremental' AND b.stream = 'incremental' AND a.feed = 'A' AND b.feed = 'B'
)
SELECT
  channel,
  count(*) AS packets,
  avg(CASE WHEN lead_ns > 0 THEN 1.0E0 ELSE 0.0E0 END) AS share_of_a,
  percentile(lead_ns, 0.5) AS median_ns,
  percentile(lead_ns, 0.01) AS p1_ns,
  percentile(lead_ns, 0.99) AS p99_ns
FROM pairs
GROUP BY channel
ORDER BY channel
