"""Analytics tables: trades, bars, statistics, states, auctions, latencies, lives of orders."""
