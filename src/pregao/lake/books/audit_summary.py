"""Summary of the audit of a lake's books: number of equal snapshots, and the different ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from pregao.lake.books.schemas import AUDIT
from pregao.lake.books.selection import BookSelection, selected
from pregao.lake.storage.lake_store import LakeStore
from pregao.notebook import record_html


@dataclass(slots=True)
class AuditSummary:
    """Comparison of the rebuilt books with the snapshots in the captures."""

    results: Counter[str] = field(default_factory=Counter)
    """Number of snapshots by result: equal, different, gap, start, incomplete, void."""
    instruments: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)
    """Details of snapshots that differ without a gap that explains it."""

    def _repr_html_(self) -> str:
        fields = {"results": self.results, "instruments": self.instruments}
        return record_html("Book audit", fields | {"differences": self.differences})

    @property
    def snapshots(self) -> int:
        """Number of compared snapshots."""
        return self.results.total()

    @property
    def passed(self) -> bool:
        """Whether no snapshot differs without a gap that explains it."""
        return not self.results["different"]


def audit_summary(
    lake: LakeStore, selection: BookSelection | None = None, limit: int = 20
) -> AuditSummary:
    """Summarize the audit, with details of at most `limit` differences."""
    lake.require()
    columns = [column.name for column in AUDIT.schema if column.name != "date"]
    summary = AuditSummary()
    instruments: set[tuple[int, int]] = set()
    for rows in selected(lake, AUDIT.name, columns, selection or BookSelection()):
        summary.results.update(rows["result"].to_pylist())
        pairs = zip(rows["channel"].to_pylist(), rows["security_id"].to_pylist(), strict=True)
        instruments.update(pairs)
        if len(summary.differences) < limit:
            different = rows.filter(pc.equal(rows["result"], "different"))
            summary.differences += different.slice(0, limit - len(summary.differences)).to_pylist()
    summary.instruments = len(instruments)
    return summary
