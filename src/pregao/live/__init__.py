"""The feed on the network: what receives, records and replays it, and says how healthy it is."""
