"""The exchange simulator, in layers: each subpackage imports only from those listed before it.

- ``engine``: the market as a state machine, commands in, outcomes out;
- ``publisher``: encodes outcomes as the datagrams of the market data feed;
- ``traders``: a synthetic crowd that sends commands, and market operations that follow the day;
- ``simulation``: traders, engine and publisher on a virtual clock, written as captures;
- ``host``: gateways, engine, publisher and journal as a server.

``publisher`` and ``traders`` do not import each other.
"""
