"""Exchange server: TCP gateways, the engine, the UDP feed, a journal and a control endpoint.

`ExchangeHost` is the exchange without sockets and clocks; `ExchangeServer` runs it in an event
loop.
"""
