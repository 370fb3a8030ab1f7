"""The audit of a lake's books in short: how many snapshots were equal, and which were not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from pregao.lake.books.export import Selection, selected
from pregao.lake.books.tables import AUDIT
from pregao.lake.store import Lake


@dataclass(slots=True)
class AuditSummary:
    """How the rebuilt books compare with the snapshots in the captures."""

    results: Counter[str] = field(default_factory=Counter)
    """How many snapshots had each result: equal, different, gap, start, incomplete, void."""
    instruments: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)
    """Snapshots that differ though no gap explains it, with the detail of each."""

    @property
    def snapshots(self) -> int:
        """How many snapshots were compared."""
        return self.results.total()

    @property
    def passed(self) -> bool:
        """Does no snapshot differ without a gap that explains it?"""
        return not self.results["different"]


def audit_summary(lake: Lake, selection: Selection | None = None, limit: int = 20) -> AuditSummary:
    """Sum the audit up; of the differences, at most so many are told in detail."""
    lake.require()
    columns = [column.name for column in AUDIT.schema if column.name != "date"]
    found = AuditSummary()
    instruments: set[tuple[int, int]] = set()
    for rows in selected(lake, AUDIT.name, columns, selection or Selection()):
        found.results.update(rows["result"].to_pylist())
        pairs = zip(rows["channel"].to_pylist(), rows["security_id"].to_pylist(), strict=True)
        instruments.update(pairs)
        if len(found.differences) < limit:
            different = rows.filter(pc.equal(rows["result"], "different"))
            found.differences += different.slice(0, limit - len(found.differences)).to_pylist()
    found.instruments = len(instruments)
    return found
