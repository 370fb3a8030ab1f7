"""The exchange as a server: gateways over TCP, the engine, the feed over UDP, a journal, control.

``Host`` is all of it without sockets and clocks; ``serve`` runs it.
"""
