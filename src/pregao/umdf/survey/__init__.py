"""Survey of captures: lines and their streams, sequences, rates, and decoding failures."""
