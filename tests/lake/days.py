"""Tiny simulated days for the lake's tests, and tables as plain rows."""

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pregao.cli.simulate.command import simulate
from tests.build_once import build_once

SMALL: dict[str, Any] = {"instruments": 3, "duration": "10s", "rate": 60.0}
"""A day that is cheap to ingest repeatedly, for tests that do not depend on its size."""


@cache
def day(**settings) -> Path:
    """A simulated day with these settings, made once per run."""
    chosen: dict[str, Any] = {"instruments": 6, "duration": "40s", "rate": 150.0} | settings
    return build_once("day", chosen, lambda folder: simulate(output=folder, quiet=True, **chosen))


def sorted_table(lake, table, *, without=("capture_id", "unit_id")):
    """A table in the order of its keys, without what differs between runs."""
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
    return data.sort_by([(name, "ascending") for name in keys])


def expected_table(lake, table):
    """Rows of a lake that many are compared with: re-read only when it has changed."""
    log = sorted(path.name for path in Path(lake, table, "_delta_log").iterdir())
    return _read_once(str(lake), table, tuple(log))


@lru_cache(maxsize=200)
def _read_once(lake, table, log):
    return sorted_table(lake, table)


def rows(lake, table, **choice):
    """The rows of the same."""
    return sorted_table(lake, table, **choice).to_pylist()


def tables(lake):
    """The names of the tables that hold decoded data."""
    return sorted(
        path.name
        for path in Path(lake).iterdir()
        if not path.name.startswith("_") and path.name != "ingests"
    )


def assert_same(one, other, *, but=()):
    """Two lakes hold the same rows; the first is what is expected of the second."""
    assert set(tables(one)) - set(but) == set(tables(other)) - set(but)
    for table in tables(one):
        if table not in but:
            found = expected_table(one, table), sorted_table(other, table)
            # Rows are built only if there is a difference to show.
            if not found[0].equals(found[1]):
                assert found[0].to_pylist() == found[1].to_pylist(), table
