"""Symbols and the numbers that they had, by day: a symbol may get another number over the years."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import UsageError
from pregao.lake.store import DATE, Lake, Location
from pregao.lake.views.definitions import INSTRUMENTS
from pregao.names import did_you_mean, folded

_COLUMNS = (DATE, "channel", "security_id", "symbol", "security_group")


@dataclass(frozen=True, slots=True)
class Listing:
    """A symbol and its number on a channel, over days on which that was so."""

    symbol: str | None
    security_id: int
    channel: int
    security_group: str | None
    first_day: date
    last_day: date
    days: int
    """On how many days of the lake."""


def find_symbol(
    lake: Lake | Location | str | os.PathLike[str], name: str, day: date | None = None
) -> list[Listing]:
    """What a symbol stood for on a day, or on all days of a lake; a number is looked up likewise.

    The latest comes first. That nobody has that name is an error, which tells similar ones.
    """
    place = lake if isinstance(lake, Lake) else Lake(lake)
    place.require()
    place.roll_forward()
    rows = _instruments(place, day)
    wanted = name.strip()
    # Python takes other digits for numbers too.
    if wanted.isascii() and wanted.isdigit():
        # Numbers beyond what a column holds are of no instrument.
        found = rows.filter(pc.equal(rows["security_id"], min(int(wanted), (1 << 63) - 1)))
    else:
        found = rows.filter(pc.equal(pc.utf8_upper(rows["symbol"]), folded(wanted)))
    if not found.num_rows:
        raise UsageError(_nobody(place, rows, wanted, day))
    return _listings(found)


def _instruments(lake: Lake, day: date | None) -> Any:
    if INSTRUMENTS not in lake.table_names():
        raise UsageError(f"{lake.location} has no table {INSTRUMENTS}: nothing tells its symbols.")
    table = lake.delta(INSTRUMENTS)
    columns = [name for name in _COLUMNS if name in lake.schema(INSTRUMENTS).names]
    chosen = None if day is None else [(DATE, "=", day)]
    rows = table.to_pyarrow_table(columns=columns, filters=chosen)
    if not rows.num_rows:
        when = "" if day is None else f" of {day.isoformat()}"
        known = sorted(set(table.to_pyarrow_table(columns=[DATE])[DATE].to_pylist()))
        days = f"; it has those of {known[0]} to {known[-1]}" if known else ""
        raise UsageError(f"{lake.location} has no instrument definitions{when}{days}.")
    return rows


def _listings(rows: Any) -> list[Listing]:
    found: dict[tuple[Any, ...], Listing] = {}
    for row in rows.sort_by([(DATE, "ascending")]).to_pylist():
        key = (row["symbol"], row["security_id"], row["channel"])
        day, group = row[DATE], row.get("security_group")
        known = found.get(key) or Listing(*key, group, day, day, 0)
        found[key] = replace(known, security_group=group, last_day=day, days=known.days + 1)
    by_name = sorted(found.values(), key=lambda one: (one.symbol or "", one.channel))
    return sorted(by_name, key=lambda one: one.last_day, reverse=True)


def _nobody(lake: Lake, rows: Any, name: str, day: date | None) -> str:
    """That there is no such instrument, and which ones it may have meant."""
    when = "" if day is None else f" on {day.isoformat()}"
    return f"{lake.location} knows no instrument {name}{when}.{_meant(rows, name)}"


def meant(lake: Lake, name: str, day: date | None = None) -> str:
    """A question for the instruments whose names are like this; nothing if there are none."""
    try:
        return _meant(_instruments(lake, day), name)
    except UsageError:
        return ""


def _meant(rows: Any, name: str) -> str:
    symbols = sorted(set(pc.unique(rows["symbol"].drop_null()).to_pylist()))
    numbers = pc.unique(rows["security_id"]).cast(pa.string()).to_pylist()
    return did_you_mean(name, [*symbols, *numbers])
