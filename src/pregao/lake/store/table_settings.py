"""Delta properties of tables that keep logs cheap to load after years of commits."""

from __future__ import annotations

from deltalake import Transaction

from pregao.lake.store.unit import TableSpec

_RETENTION = "delta.setTransactionRetentionDuration"
_STATISTICS = "delta.dataSkippingStatsColumns"


def settings_of(spec: TableSpec) -> dict[str, str]:
    """Return the properties of a table, under Delta's names."""
    settings = {
        # Loading a table reads the log since the last checkpoint; most commands load many tables.
        # Writing a checkpoint takes as long as reading a hundred commits.
        "delta.checkpointInterval": "30",
        # Bounds as columns: a table with a thousand files loads in half the time than with JSON.
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
        # Marks have no time and are kept; retired ones have the earliest time, so that they expire.
        _RETENTION: "interval 3650 days",
    }
    if spec.passing:
        # By default, a log keeps entries of replaced files for a week.
        settings["delta.deletedFileRetentionDuration"] = "interval 0 hours"
    if spec.statistics:
        settings[_STATISTICS] = ",".join(spec.statistics)
    return settings


def bounded_columns(settings: dict[str, str]) -> list[str] | None:
    """Return the columns with bounds in a table's log; None for the leading ones."""
    named = settings.get(_STATISTICS)
    return named.split(",") if named else None


def mark(name: str, version: int) -> Transaction:
    """Return an application transaction: a name with a version that a table's log keeps."""
    return Transaction(name, version)


def retired_mark(name: str) -> Transaction:
    """Return a transaction that removes a name: lookups and the next checkpoint omit it."""
    return Transaction(name, 1, 0)
