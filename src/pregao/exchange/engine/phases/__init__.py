"""Trading phases, auctions and the trading day."""
