"""How a table keeps its log: what makes it cheap to load after years of commits."""

from __future__ import annotations

from deltalake import Transaction

from pregao.lake.store.unit import TableSpec

_RETENTION = "delta.setTransactionRetentionDuration"
_STATISTICS = "delta.dataSkippingStatsColumns"


def settings_of(spec: TableSpec) -> dict[str, str]:
    """The settings of a table, under Delta's names."""
    settings = {
        # Loading a table reads the log since the last checkpoint; most commands load many. To make
        # a checkpoint takes as long as to read a hundred commits.
        "delta.checkpointInterval": "30",
        # Bounds as columns: a table with a thousand files loads in half the time that texts take.
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
        # Marks have no time and stay, but for retired ones, which have the oldest time there is.
        _RETENTION: "interval 3650 days",
    }
    if spec.passing:
        # A log tells for a week which files were replaced, unless it is told otherwise.
        settings["delta.deletedFileRetentionDuration"] = "interval 0 hours"
    if spec.statistics:
        settings[_STATISTICS] = ",".join(spec.statistics)
    return settings


def bounded_columns(settings: dict[str, str]) -> list[str] | None:
    """The columns whose bounds a table's log keeps; None if these are the leading ones."""
    named = settings.get(_STATISTICS)
    return named.split(",") if named else None


def mark(name: str, version: int) -> Transaction:
    """A name that a table remembers, with a number."""
    return Transaction(name, version)


def retired_mark(name: str) -> Transaction:
    """What lets a table forget a name: the next checkpoint leaves it out, and lookups before."""
    return Transaction(name, 1, 0)
