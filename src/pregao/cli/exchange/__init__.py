"""``pregao exchange``: run an exchange, operate it, repair its journal."""
