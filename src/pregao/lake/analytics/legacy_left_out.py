"""Part of the legacy feed that analytics exclude, so that nothing counts twice.

Channels and instruments that the binary feed has on a day are excluded from the legacy feed's.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pregao.lake.books.brought import day_coverage
from pregao.lake.books.catalogue import FileCatalogue
from pregao.lake.books.columns import integers, take
from pregao.lake.books.inputs import INSTRUMENTS, InputFiles, SecurityRange
from pregao.lake.books.legacy_reader import LegacyReader
from pregao.lake.books.slots import TimeSlots
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.store.lake import LakeStore


@dataclass(frozen=True, slots=True)
class PriceLevelInstruments:
    """Instruments of a channel published by price levels, and those published by orders."""

    levels: frozenset[int]
    orders: frozenset[int]
    usually_levels: bool
    """Whether an instrument that is in neither has price levels."""

    @staticmethod
    def of(inputs: InputFiles) -> PriceLevelInstruments:
        """Return those of a channel's day."""
        levels = frozenset(each for each, depth in inputs.depths.items() if depth)
        return PriceLevelInstruments(
            levels, frozenset(inputs.depths) - levels, inputs.usual_depth != 0
        )


@dataclass(frozen=True, slots=True)
class LegacyExclusions:
    """Exclusions of a day, and facts about the rest."""

    channels: frozenset[int]
    instruments: frozenset[int]
    groups: frozenset[tuple[int, str]]
    """Groups all of whose instruments are excluded, with their channel."""
    slots: Mapping[int, TimeSlots]
    """Time slots and restarts of numbers of the channels that are not excluded."""
    depths: Mapping[int, PriceLevelInstruments]

    def without(self, rows: Any, *, only_orders: bool = False) -> Any:
        """Return the other rows; with `only_orders`, those of instruments published by orders."""
        channel = integers(rows.column("channel"), -1)
        security = integers(rows.column("security_id"), -1)
        excluded = np.isin(channel, list(self.channels)) | np.isin(security, list(self.instruments))
        if only_orders:
            for number, depths in self.depths.items():
                known = depths.orders if depths.usually_levels else depths.levels
                listed = np.isin(security, list(known))
                excluded |= (channel == number) & (~listed if depths.usually_levels else listed)
        return rows if not excluded.any() else take(rows, np.flatnonzero(~excluded))


def left_out(lake: LakeStore, date: datetime.date) -> LegacyExclusions:
    """Return the exclusions of the legacy feed's day."""
    catalogue = FileCatalogue(lake)
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
    return LegacyExclusions(
        channels,
        instruments,
        groups,
        {channel: day_coverage(lake, date, channel, protocol).slots for channel in own},
        {channel: PriceLevelInstruments.of(inputs[channel]) for channel in own},
    )


def channels_of_levels(lake: LakeStore, date: datetime.date) -> list[int]:
    """Return the legacy feed's channels that publish price levels of any instrument on a day."""
    catalogue = FileCatalogue(lake)
    binary = catalogue.binary_channels(date)
    found = []
    for channel in catalogue.channels(date):
        if channel not in binary:
            depths = PriceLevelInstruments.of(catalogue.inputs(date, channel))
            if depths.levels or depths.usually_levels:
                found.append(channel)
    return found


def _groups_without(lake: LakeStore, inputs: InputFiles, instruments: frozenset[int]) -> set[str]:
    """Return the groups of a channel all of whose instruments are among the given ones."""
    found: dict[str, set[int]] = {}
    every = InputFiles(inputs.day, inputs.channel, inputs.tables, inputs.files, inputs.protocol)
    names = ["security_id", "security_group"]
    for rows in LegacyReader(lake.location, every).read(INSTRUMENTS, names, SecurityRange()):
        groups = rows.column("security_group").to_pylist()
        for security, group in zip(integers(rows.column("security_id")), groups, strict=True):
            found.setdefault(group, set()).add(int(security))
    return {group for group, members in found.items() if group and members <= instruments}
