"""Commands of market operations: halts, news, price limits, trade corrections."""
