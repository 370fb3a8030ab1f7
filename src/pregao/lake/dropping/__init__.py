"""Removal of days, channels and ingests from a lake, with everything derived from them."""

from pregao.lake.dropping.drop import Dropped, drop
from pregao.lake.dropping.selection import Selection

__all__ = ["Dropped", "Selection", "drop"]
