"""A complete market on a virtual clock: traders, engine and publisher, written as captures.

Settings go in; captures of every stream and their ground truth come out, the same bytes for the
same settings. The settings are imported eagerly, the modules that run a market on first use.
"""
