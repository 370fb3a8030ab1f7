"""State of the market: order books, pending orders, listings and positions."""
