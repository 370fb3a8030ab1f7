"""``pregao simulate``: a simulated market as captures."""
