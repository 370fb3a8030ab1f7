-- Percentiles of the latency from the engine event (T5) to the sending of its packet (T11), in ns.
SELECT
  channel,
  count(*) AS events,
  percentile(t11_ns - t5_ns, 0.5) AS p50_ns,
  percentile(t11_ns - t5_ns, 0.9) AS p90_ns,
  percentile(t11_ns - t5_ns, 0.99) AS p99_ns,
  max(t11_ns - t5_ns) AS max_ns
FROM v_latency
WHERE t5_ns IS NOT NULL
GROUP BY channel
ORDER BY channel
