"""Exchange server: TCP gateways, the engine, the UDP feed, a journal and a control endpoint.

`Host` is the exchange without sockets and clocks; `ExchangeServer` runs it in an event loop.
"""
