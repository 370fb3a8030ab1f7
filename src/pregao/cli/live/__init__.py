"""``pregao live``: the feed in a terminal, as JSON lines or into a lake."""
