"""FIX 4.4: tag=value messages, and a minimal session for either side, without sockets.

`Parser` extracts messages from a byte stream, `encode` writes them. `FixSession` is a state
machine: bytes and a time go in, bytes to send and events come out. Nothing here is specific to an
exchange.
"""
