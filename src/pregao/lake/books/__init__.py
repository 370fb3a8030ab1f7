"""Books in the lake: rebuilt from message tables into ticks and checkpoints, and audited.

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.books.audited import AuditSummary as AuditSummary
    from pregao.lake.books.audited import audit_summary as audit_summary
    from pregao.lake.books.brought import brought as brought
    from pregao.lake.books.brought import find_holes as find_holes
    from pregao.lake.books.build import BookOptions as BookOptions
    from pregao.lake.books.build import DayReport as DayReport
    from pregao.lake.books.build import build_books as build_books
    from pregao.lake.books.build import run_books_here as run_books_here
    from pregao.lake.books.catalogue import Catalogue as Catalogue
    from pregao.lake.books.columns import codes as codes
    from pregao.lake.books.columns import integers as integers
    from pregao.lake.books.export import Selection as Selection
    from pregao.lake.books.export import export_checkpoints as export_checkpoints
    from pregao.lake.books.export import export_moments as export_moments
    from pregao.lake.books.export import export_ticks as export_ticks
    from pregao.lake.books.lookup import InstrumentBooks as InstrumentBooks
    from pregao.lake.books.lookup import book_at as book_at
    from pregao.lake.books.lookup import find_instrument as find_instrument
    from pregao.lake.books.lookup import open_books as open_books
    from pregao.lake.books.plan import plan_day as plan_day
    from pregao.lake.books.plan import plan_tasks as plan_tasks
    from pregao.lake.books.runner import books_on_spark as books_on_spark
    from pregao.lake.books.span import Moment as Moment
    from pregao.lake.books.tasks import BookTask as BookTask
    from pregao.lake.books.tasks import BuildSettings as BuildSettings
    from pregao.lake.books.tasks import run_book_task as run_book_task

_HOMES = {
    "audited": ["AuditSummary", "audit_summary"],
    "brought": ["brought", "find_holes"],
    "build": ["BookOptions", "DayReport", "build_books", "run_books_here"],
    "catalogue": ["Catalogue"],
    "columns": ["codes", "integers"],
    "export": ["Selection", "export_checkpoints", "export_moments", "export_ticks"],
    "lookup": ["InstrumentBooks", "book_at", "find_instrument", "open_books"],
    "plan": ["plan_day", "plan_tasks"],
    "runner": ["books_on_spark"],
    "span": ["Moment"],
    "tasks": ["BookTask", "BuildSettings", "run_book_task"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
