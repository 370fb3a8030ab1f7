"""Exports: an instrument's day in third-party formats.

LOBSTER, hftbacktest, NautilusTrader, and Databento's columns; docs/exports.md describes each. Names
are imported on first use.
"""
