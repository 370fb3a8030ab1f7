"""Recovery: keys of messages and snapshots, and which snapshots are usable.

A snapshot is as of a packet key of the incremental stream: it includes everything up to that
packet, and later packets apply to it. News and definitions are in no snapshot and are never
discarded.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.sequencing import PacketKey, version_distance
from pregao.umdf.templates import NEWS, SECURITY_DEFINITIONS

T = TypeVar("T")

NEVER_DISCARDED = SECURITY_DEFINITIONS | {NEWS}
"""Templates that snapshots do not include."""


class IncrementalMessage(NamedTuple, Generic[T]):
    """A message of the incremental stream, with the fields that recovery needs."""

    packet_key: PacketKey
    index_in_packet: int
    template_id: int
    security_id: int | None
    """None for messages of the channel or of a group."""
    rpt_seq: int | None
    item: T


def snapshot_key(header: SnapshotHeader, incremental_version: int) -> PacketKey:
    """Return the packet key that a snapshot is as of; older schemas do not state the version."""
    version = header.last_sequence_version
    return PacketKey(
        incremental_version if version is None else version, header.last_msg_seq_num_processed
    )


def is_usable(header: SnapshotHeader, incremental_version: int) -> bool:
    """Whether a snapshot is not of an older sequence version than the incremental stream."""
    version = header.last_sequence_version
    return version is None or version_distance(incremental_version, version) >= 0
