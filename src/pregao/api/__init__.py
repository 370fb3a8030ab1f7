"""The public Python API: captures, books, channels, lakes and simulated markets.

`pregao` exports these names to users; docs/api.md documents them. This package only combines the
packages below it. Names are loaded on first use.
"""
