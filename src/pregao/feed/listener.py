"""What a follower tells whoever listens to it, as it happens."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pregao.book.updates import DepthUpdate, Update
from pregao.feed.healing import Gap, Healed
from pregao.umdf.loops import InstrumentSnapshot
from pregao.umdf.sequencing import Place

NO_EVENT = -1
"""The event of what is no event of the market: a snapshot that is loaded."""


class Part(NamedTuple):
    """A message as it was decoded, with the event that it belongs to."""

    version: int
    """Of its schema."""
    values: dict[str, Any]
    template_id: int
    event: int = NO_EVENT


class Listener:
    """Is told what the follower does; whoever wants to know overrides what he wants to know."""

    def updated(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """A book took an update in."""

    def message(
        self, place: Place, event: int, template_id: int, values: Mapping[str, Any]
    ) -> None:
        """A message of the incremental stream was taken in; its book has changed already."""

    def dropped(self, template_id: int, values: Mapping[str, Any]) -> None:
        """A message of an instrument beyond the limit was dropped."""

    def stale(self, gap: Gap) -> None:
        """A book is not to be trusted any more."""

    def healed(self, healed: Healed) -> None:
        """A stale book is sound again, as of a place that may be in the past."""

    def delivered(self, place: Place) -> None:
        """All messages of a packet were taken in."""

    def snapshot(self, found: InstrumentSnapshot[Part], place: Place, *, needed: bool) -> None:
        """A whole snapshot is taken in, as of a place; is the instrument stale or unconfirmed?"""

    def absent(self, security_id: int, place: Place) -> None:
        """A whole loop of snapshots as of a place told that there is nothing of an instrument."""

    def whole_loop(
        self, place: Place, members: Collection[int], phases: list[Part], *, covers_all: bool
    ) -> None:
        """A whole loop of snapshots came: as of a place, of some instruments, phases of groups.

        Does it make up for all that is missing?
        """

    def old_snapshot(self, security_id: int) -> None:
        """A snapshot of an older sequence version was passed over."""
