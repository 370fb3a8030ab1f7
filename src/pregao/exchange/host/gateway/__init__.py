"""Order entry of the exchange: connections, requests, risk checks and execution reports."""
