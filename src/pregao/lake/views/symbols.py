"""Symbols and their security ids by day: the id of a symbol may change over the years."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import UsageError
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import INSTRUMENTS
from pregao.name_matching import did_you_mean, folded

_COLUMNS = (DATE, "channel", "security_id", "symbol", "security_group")
_DEFINED = (INSTRUMENTS, "legacy_security_list")
"""Tables with definitions, of the binary and of the legacy feed."""


@dataclass(frozen=True, slots=True)
class SymbolListing:
    """A symbol with its security id on a channel, and the days on which it had that id."""

    symbol: str | None
    security_id: int
    channel: int
    security_group: str | None
    first_day: date
    last_day: date
    days: int
    """Number of days of the lake with this listing."""


def find_symbol(
    lake: LakeStore | Location | str | os.PathLike[str], name: str, day: date | None = None
) -> list[SymbolListing]:
    """Return the listings of a symbol or security id on a day, or on all days of a lake.

    The latest listing comes first.

    Raises:
        UsageError: There is no such instrument; the message suggests similar names.
    """
    store = lake if isinstance(lake, LakeStore) else LakeStore(lake)
    store.require()
    store.roll_forward()
    rows = _instruments(store, day)
    wanted = name.strip()
    # isdigit() alone accepts digits of other scripts too.
    if wanted.isascii() and wanted.isdigit():
        # Numbers that exceed the column's 64 bits match no instrument.
        found = rows.filter(pc.equal(rows["security_id"], min(int(wanted), (1 << 63) - 1)))
    else:
        found = rows.filter(pc.equal(pc.utf8_upper(rows["symbol"]), folded(wanted)))
    if not found.num_rows:
        raise UsageError(_nobody(store, rows, wanted, day))
    return _listings(found)


def _instruments(lake: LakeStore, day: date | None) -> Any:
    """Return the definitions of a day, or of all days, each once a day."""
    tables = [name for name in _DEFINED if name in lake.table_names()]
    if not tables:
        raise UsageError(f"{lake.location} has no table {INSTRUMENTS}, so its symbols are unknown.")
    chosen = None if day is None else [(DATE, "=", day)]
    parts = []
    for name in tables:
        columns = [column for column in _COLUMNS if column in lake.schema(name).names]
        parts.append(lake.delta(name).to_pyarrow_table(columns=columns, filters=chosen))
    rows = pa.concat_tables(parts, promote_options="permissive")
    if not rows.num_rows:
        when = "" if day is None else f" of {day.isoformat()}"
        days = [lake.delta(name).to_pyarrow_table(columns=[DATE])[DATE] for name in tables]
        known = sorted({each for column in days for each in column.to_pylist()})
        listed = f"; it has those of {known[0]} to {known[-1]}" if known else ""
        raise UsageError(f"{lake.location} has no instrument definitions{when}{listed}.")
    # The legacy feed repeats them all day.
    keys = [name for name in rows.column_names if name != "security_group"]
    groups = [("security_group", "last")] if "security_group" in rows.column_names else []
    found = rows.group_by(keys, use_threads=False).aggregate(groups)
    return found.rename_columns([name.removesuffix("_last") for name in found.column_names])


def _listings(rows: Any) -> list[SymbolListing]:
    found: dict[tuple[Any, ...], SymbolListing] = {}
    for row in rows.sort_by([(DATE, "ascending")]).to_pylist():
        key = (row["symbol"], row["security_id"], row["channel"])
        day, group = row[DATE], row.get("security_group")
        known = found.get(key) or SymbolListing(*key, group, day, day, 0)
        found[key] = replace(known, security_group=group, last_day=day, days=known.days + 1)
    by_name = sorted(found.values(), key=lambda one: (one.symbol or "", one.channel))
    return sorted(by_name, key=lambda one: one.last_day, reverse=True)


def _nobody(lake: LakeStore, rows: Any, name: str, day: date | None) -> str:
    """Return the message for an unknown instrument, with similar names."""
    when = "" if day is None else f" on {day.isoformat()}"
    return f"{lake.location} knows no instrument {name}{when}.{_meant(rows, name)}"


def meant(lake: LakeStore, name: str, day: date | None = None) -> str:
    """Return a "Did you mean …?" with similar instrument names; empty if there are none."""
    try:
        return _meant(_instruments(lake, day), name)
    except UsageError:
        return ""


def _meant(rows: Any, name: str) -> str:
    symbols = sorted(set(pc.unique(rows["symbol"].drop_null()).to_pylist()))
    numbers = pc.unique(rows["security_id"]).cast(pa.string()).to_pylist()
    return did_you_mean(name, [*symbols, *numbers])
