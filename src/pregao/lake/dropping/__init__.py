"""Days, channels and ingests taken out of a lake, with all that was made of them."""

from pregao.lake.dropping.drop import Dropped, drop
from pregao.lake.dropping.selection import Selection

__all__ = ["Dropped", "Selection", "drop"]
