"""Interface of the listeners of a follower."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pregao.book.updates import DepthUpdate, Update
from pregao.feed.recovery import InstrumentGap, MarkHealed
from pregao.umdf.loops import InstrumentSnapshot
from pregao.umdf.sequencing import PacketKey

NO_EVENT = -1
"""Event number of changes that are not part of a market event, such as a loaded snapshot."""


class EventMessage(NamedTuple):
    """A decoded message with its market event."""

    version: int
    """Schema version."""
    values: dict[str, Any]
    template_id: int
    event: int = NO_EVENT


class FollowerListener:
    """Receives the actions of a follower; subclasses override the methods that they need."""

    def on_update(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """Handle an update that was applied to a book."""

    def on_message(
        self, packet_key: PacketKey, event: int, template_id: int, values: Mapping[str, Any]
    ) -> None:
        """Handle a message of the incremental stream, after its book was updated."""

    def dropped(self, template_id: int, values: Mapping[str, Any]) -> None:
        """Handle a dropped message of an instrument beyond the limit."""

    def on_stale(self, gap: InstrumentGap) -> None:
        """Handle a book that is no longer trusted."""

    def on_healed(self, healed: MarkHealed) -> None:
        """Handle a stale book that is valid again, as of a packet that may be in the past."""

    def on_packet(self, packet_key: PacketKey) -> None:
        """Handle the end of a packet, after all of its messages were applied."""

    def on_snapshot(
        self, found: InstrumentSnapshot[EventMessage], packet_key: PacketKey, *, needed: bool
    ) -> None:
        """Handle a complete snapshot as of a packet.

        ``needed`` means that the instrument is stale or unconfirmed.
        """

    def on_absent(self, security_id: int, packet_key: PacketKey) -> None:
        """Handle an instrument without data in a complete snapshot loop as of a packet."""

    def on_complete_loop(
        self,
        packet_key: PacketKey,
        members: Collection[int],
        phases: list[EventMessage],
        *,
        covers_all: bool,
    ) -> None:
        """Handle a complete snapshot loop as of a packet, with its instruments and group phases.

        ``covers_all`` means that it makes up for everything that is missing.
        """

    def on_outdated_snapshot(self, security_id: int) -> None:
        """Handle an ignored snapshot of an older sequence version."""
