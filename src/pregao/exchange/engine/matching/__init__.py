"""Rules of matching: priority, self-trade prevention, price bands, protections, statistics."""
