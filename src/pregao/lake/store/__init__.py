"""The store of a lake: Delta tables at a location, and units of files that become visible once.

It knows nothing of what the tables are about.
"""

from pregao.lake.store.file_statistics import stats_json
from pregao.lake.store.lake import STAGING, Lake
from pregao.lake.store.location import Location
from pregao.lake.store.unit import NewFile, Outcome, TableSpec, Unit

__all__ = [
    "STAGING",
    "Lake",
    "Location",
    "NewFile",
    "Outcome",
    "TableSpec",
    "Unit",
    "stats_json",
]
