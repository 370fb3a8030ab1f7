"""The control port: typed requests of market operations, its token, and metrics."""
