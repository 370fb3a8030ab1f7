"""Selection of rows of the tables of books by date, channel and symbol; summary of their audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pregao.errors import UsageError
from pregao.lake.books.book_at import security_number
from pregao.lake.books.catalog import files_of
from pregao.lake.books.schemas import AUDIT, side_columns
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.symbols import meant
from pregao.name_matching import folded
from pregao.notebook import record_html


@dataclass(frozen=True, slots=True)
class BookSelection:
    """Selection of rows of a table; an empty field selects all."""

    dates: tuple[date, ...] = ()
    channels: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    """Symbols or security IDs."""

    def of(self, rows: Any) -> Any:
        """Return the selected rows."""
        wanted = None
        if self.channels:
            wanted = pc.is_in(rows["channel"], pa.array(self.channels, pa.int16()))
        if self.symbols:
            numbers = [
                number for name in self.symbols if (number := security_number(name)) is not None
            ]
            names = pa.array([folded(name) for name in self.symbols], pa.string())
            own = pc.or_(
                pc.fill_null(
                    pc.is_in(pc.utf8_upper(rows["symbol"].cast(pa.string())), names), False
                ),
                pc.is_in(rows["security_id"], pa.array(numbers, pa.int64())),
            )
            wanted = own if wanted is None else pc.and_(wanted, own)
        return rows if wanted is None else rows.filter(wanted)


def selected(
    lake: LakeStore, table: str, columns: Sequence[str], selection: BookSelection
) -> Iterator[Any]:
    """Yield the selected rows of a table of books by row group, in order of date and file."""
    if table not in lake.table_names():
        raise UsageError(
            f"{lake.location} has no books yet: run `pregao books --lake {lake.location}` first."
        )
    files = files_of(lake, table, selection.dates or None)
    days = {str(file["partition.date"]) for file in files}
    if missing := [day for day in selection.dates if day.isoformat() not in days]:
        raise UsageError(f"{lake.location} has no books of {missing[0].isoformat()}.")
    seen: set[str] = set()
    for file in sorted(files, key=lambda one: (one["partition.date"], one["min.channel"] or 0,
                                               one["min.security_id"] or 0)):  # fmt: skip
        location = lake.table_location(table).join(file["path"])
        with pq.ParquetFile(location.path, filesystem=location.filesystem) as opened:
            named = opened.schema_arrow.names
            present = [name for name in columns if name in named]
            asks = side_columns(named)[1]
            if "asks" in columns and asks not in present:
                present.append(asks)
            for group in range(opened.metadata.num_row_groups):
                rows = opened.read_row_group(group, columns=present)
                if asks != "asks" and asks in present:
                    rows = rows.rename_columns({asks: "asks"})
                for name in columns:
                    if name not in rows.column_names:  # built with fewer levels
                        rows = rows.append_column(name, pa.nulls(rows.num_rows))
                rows = selection.of(rows)
                if rows.num_rows:
                    if selection.symbols:
                        symbols = rows["symbol"].unique().drop_null().to_pylist()
                        seen.update(folded(symbol) for symbol in symbols)
                        seen.update(map(str, rows["security_id"].unique().to_pylist()))
                    yield rows
    if unknown := [name for name in selection.symbols if folded(name) not in seen]:
        hints = "".join(meant(lake, name) for name in unknown)
        raise UsageError(f"{lake.location}: {table} has no rows of {', '.join(unknown)}.{hints}")


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
