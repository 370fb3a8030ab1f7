"""Analytics tables: trades, bars, statistics, states, auctions, latencies, order histories.

Names are imported on first use.
"""
