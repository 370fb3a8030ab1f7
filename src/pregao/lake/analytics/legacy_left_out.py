"""What of the legacy feed is left out of analytics, so that nothing counts twice.

Where the binary feed has a channel on a day, or an instrument, the legacy feed's are left out.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pregao.lake.books.brought import brought
from pregao.lake.books.catalogue import Catalogue
from pregao.lake.books.columns import integers, taken
from pregao.lake.books.inputs import INSTRUMENTS, Inputs, Part
from pregao.lake.books.legacy_reader import LegacyReader
from pregao.lake.books.slots import Slots
from pregao.lake.ingest import PROTOCOLS
from pregao.lake.store import Lake


@dataclass(frozen=True, slots=True)
class Depths:
    """Which instruments of a channel are told by price levels, and not by their orders."""

    levels: frozenset[int]
    orders: frozenset[int]
    usually_levels: bool
    """Of an instrument that is in neither."""

    @staticmethod
    def of(inputs: Inputs) -> Depths:
        """Those of a channel's day."""
        levels = frozenset(each for each, depth in inputs.depths.items() if depth)
        return Depths(levels, frozenset(inputs.depths) - levels, inputs.usual_depth != 0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is left out of a day, and what is to be known of the rest."""

    channels: frozenset[int]
    instruments: frozenset[int]
    groups: frozenset[tuple[int, str]]
    """By channel: the groups of which all instruments are left out."""
    slots: Mapping[int, Slots]
    """Of the channels that are not left out: where numbers begin anew."""
    depths: Mapping[int, Depths]

    def without(self, rows: Any, *, only_orders: bool = False) -> Any:
        """The other rows; of them, if so, those of instruments that are told by their orders."""
        channel = integers(rows.column("channel"), -1)
        security = integers(rows.column("security_id"), -1)
        twice = np.isin(channel, list(self.channels)) | np.isin(security, list(self.instruments))
        if only_orders:
            for number, depths in self.depths.items():
                known = depths.orders if depths.usually_levels else depths.levels
                told = np.isin(security, list(known))
                twice |= (channel == number) & (~told if depths.usually_levels else told)
        return rows if not twice.any() else taken(rows, np.flatnonzero(~twice))


def left_out(lake: Lake, date: datetime.date) -> LeftOut:
    """What of the legacy feed's day is left out."""
    catalogue = Catalogue(lake)
    channels = frozenset(catalogue.binary_channels(date))
    own = [channel for channel in catalogue.channels(date) if channel not in channels]
    inputs = {channel: catalogue.inputs(date, channel) for channel in own}
    instruments = catalogue.binary_instruments(date)
    groups = frozenset[tuple[int, str]]()
    if instruments:
        groups = frozenset(
            (channel, group)
            for channel in own
            for group in _groups_without(lake, inputs[channel], instruments)
        )
    protocol = PROTOCOLS["legacy"]
    return LeftOut(
        channels,
        instruments,
        groups,
        {channel: brought(lake, date, channel, protocol).slots for channel in own},
        {channel: Depths.of(inputs[channel]) for channel in own},
    )


def channels_of_levels(lake: Lake, date: datetime.date) -> list[int]:
    """The channels of the legacy feed that tell price levels on a day, of any instrument."""
    catalogue = Catalogue(lake)
    binary = catalogue.binary_channels(date)
    found = []
    for channel in catalogue.channels(date):
        if channel not in binary:
            depths = Depths.of(catalogue.inputs(date, channel))
            if depths.levels or depths.usually_levels:
                found.append(channel)
    return found


def _groups_without(lake: Lake, inputs: Inputs, instruments: frozenset[int]) -> set[str]:
    """The groups of a channel of which there is no other instrument."""
    found: dict[str, set[int]] = {}
    every = Inputs(inputs.day, inputs.channel, inputs.tables, inputs.files, inputs.protocol)
    names = ["security_id", "security_group"]
    for rows in LegacyReader(lake.location, every).read(INSTRUMENTS, names, Part()):
        groups = rows.column("security_group").to_pylist()
        for security, group in zip(integers(rows.column("security_id")), groups, strict=True):
            found.setdefault(group, set()).add(int(security))
    return {group for group, members in found.items() if group and members <= instruments}
