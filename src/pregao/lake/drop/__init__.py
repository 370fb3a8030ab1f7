"""Removal of days, channels and ingests from a lake, with everything derived from them."""
