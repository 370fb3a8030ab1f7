"""The ingest: captures surveyed, cut into tasks, decoded, accounted for and committed as tables.

What others use of it is imported when it is first asked for: a command that only lists tables
need not load what decodes them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.ingest.intake import Merger as Merger
    from pregao.lake.ingest.intake import Progress as Progress
    from pregao.lake.ingest.intake import Runner as Runner
    from pregao.lake.ingest.intake import bytes_of as bytes_of
    from pregao.lake.ingest.intake import content_hash as content_hash
    from pregao.lake.ingest.intake import ingest as ingest
    from pregao.lake.ingest.intake import merge_here as merge_here
    from pregao.lake.ingest.intake import run_here as run_here
    from pregao.lake.ingest.intake import table_specs as table_specs
    from pregao.lake.ingest.intake import take_in as take_in

_HOMES = {
    "intake": (
        "Merger", "Progress", "Runner", "bytes_of", "content_hash", "ingest", "merge_here",
        "run_here", "table_specs", "take_in",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
