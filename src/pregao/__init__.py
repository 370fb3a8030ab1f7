"""Pregão: B3's electronic market in Python, from the wire to the lake."""

__version__ = "0.1.0"
