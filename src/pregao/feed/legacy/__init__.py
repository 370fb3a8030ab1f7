"""Channels of the legacy FIX/FAST feed, with the same book states."""
