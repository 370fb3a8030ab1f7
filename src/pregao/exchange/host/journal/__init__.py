"""The journal of requests: files, replay and repair."""
