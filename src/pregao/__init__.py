"""Pregão: B3's electronic market in Python, from the wire to the lake."""

from pregao._version import __version__

__all__ = ["__version__"]
