"""Market data publisher: encodes the engine's events as datagrams of every stream and channel.

The incremental stream publishes events as they happen; the snapshot and definition loops are built
only from events already published, as a receiver knows them. ``encoding`` writes the messages.
"""
