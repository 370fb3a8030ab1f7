"""Tiny simulated days for the lake's tests, and tables as plain rows."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from deltalake import DeltaTable

from pregao.cli.simulate import simulate


@cache
def day(**settings) -> Path:
    """A simulated day with these settings, made once per run."""
    folder = Path(mkdtemp(prefix="pregao-day-"))
    chosen: dict[str, Any] = {"instruments": 6, "duration": "40s", "rate": 150.0} | settings
    simulate(out=folder, quiet=True, force=True, **chosen)
    return folder


def rows(lake, table, *, without=("capture_id", "unit_id")):
    """The rows of a table in the order of their keys, without what differs between runs."""
    data = DeltaTable(f"{lake}/{table}").to_pyarrow_table()
    data = data.drop_columns([name for name in without if name in data.column_names])
    keys = [
        name
        for name in (
            "channel", "stream", "feed", "sequence_version", "sequence_number", "index_in_packet",
            "capture_time_ns", "position", "first_missing",
        )
        if name in data.column_names
    ]  # fmt: skip
    return data.sort_by([(name, "ascending") for name in keys]).to_pylist()


def tables(lake):
    """The names of the tables that hold decoded data."""
    return sorted(
        path.name
        for path in Path(lake).iterdir()
        if not path.name.startswith("_") and path.name != "ingests"
    )


def assert_same(one, other, *, but=()):
    """Two lakes hold the same rows."""
    assert set(tables(one)) - set(but) == set(tables(other)) - set(but)
    for table in tables(one):
        if table not in but:
            assert rows(one, table) == rows(other, table), table
