"""Checkpoints of the exchange's state: typed columns in files that a start loads."""
