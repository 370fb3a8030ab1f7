"""What recovery asks of messages and snapshots: where they are, and which snapshots count.

A snapshot holds as of a place in the incremental stream: what came up to there is in it, what came
behind it follows on it. News and definitions are in no snapshot: they are never discarded.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.sequencing import Place, version_distance
from pregao.umdf.templates import NEWS, SECURITY_DEFINITIONS

T = TypeVar("T")

NEVER_DISCARDED = SECURITY_DEFINITIONS | {NEWS}
"""Templates that snapshots do not reflect."""


class Incremental(NamedTuple, Generic[T]):
    """A message of the incremental stream, as far as recovery needs to know it."""

    place: Place
    index_in_packet: int
    template_id: int
    security_id: int | None
    """None of messages that concern the whole channel or a group."""
    rpt_seq: int | None
    item: T


def snapshot_place(header: SnapshotHeader, incremental_version: int) -> Place:
    """The place that a snapshot holds as of; older schemas do not tell the version."""
    version = header.last_sequence_version
    return Place(
        incremental_version if version is None else version, header.last_msg_seq_num_processed
    )


def is_usable(header: SnapshotHeader, incremental_version: int) -> bool:
    """Is a snapshot not of an older sequence version than the incremental stream?"""
    version = header.last_sequence_version
    return version is None or version_distance(incremental_version, version) >= 0
