"""The lake as one thing: its tables, what was taken in, and how new files become visible."""

from __future__ import annotations

from pregao.lake.unit import NewFile, Outcome, TableSpec, Unit

__all__ = ["NewFile", "Outcome", "TableSpec", "Unit"]
