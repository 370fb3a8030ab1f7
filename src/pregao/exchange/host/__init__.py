"""Exchange server: TCP gateways, the engine, the UDP feed, a journal and a control endpoint.

`Host` is the exchange without sockets and clocks; `ExchangeServer` runs it in an event loop.
"""

from pregao.exchange.host.captures import captures_in
from pregao.exchange.host.control_server import ask
from pregao.exchange.host.core import BACKUP, PRIMARY, Host
from pregao.exchange.host.journal import Journal
from pregao.exchange.host.market_data import MarketData
from pregao.exchange.host.residents import Residents
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import ExchangeSettings, parse_settings, read_settings

__all__ = [
    "BACKUP",
    "PRIMARY",
    "ExchangeServer",
    "ExchangeSettings",
    "Host",
    "Journal",
    "MarketData",
    "Residents",
    "ask",
    "captures_in",
    "parse_settings",
    "read_settings",
]
