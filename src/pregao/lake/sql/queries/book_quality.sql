-- Quality of each book: how it began and ended, and how many snapshots agreed with it.
SELECT
  b.symbol AS symbol,
  max(b.origin) AS began_with,
  max(b.state) AS ended,
  count(a.result) AS snapshots,
  sum(CASE WHEN a.result = 'equal' THEN 1 ELSE 0 END) AS equal,
  sum(CASE WHEN a.result = 'different' THEN 1 ELSE 0 END) AS different
FROM v_books b LEFT JOIN v_book_audit a
  ON a.date = b.date AND a.channel = b.channel AND a.security_id = b.security_id
GROUP BY b.symbol
ORDER BY b.symbol
