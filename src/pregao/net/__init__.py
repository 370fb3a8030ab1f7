"""Sockets for the feed: UDP receive and send, multicast, and HTTP for health and metrics.

`receive_socket` opens a socket on a group or an address, `open_receiver` returns a receiver for
many of them, which returns datagrams in batches of flat arrays. `Sender` sends. `HttpServer`
answers on localhost. This package does not interpret datagrams.
"""
