"""The ingest: survey captures, split them into tasks, decode, account for and commit the rows.

Public names are imported on first use: a command that only lists tables does not load the decoders.
"""
