"""The compiled path of a live channel: many datagrams per call."""
