"""The FAST templates that captures of the legacy feed are read with: ours, or those of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pregao.errors import UsageError
from pregao.fast import Templates, load_templates
from pregao.lake.ingest.schema_files import fast_files
from pregao.legacy import MessageReader, MsgType, message_type
from pregao.legacy.bulk import UNNUMBERED, HeadReader
from pregao.schemas import bundled_templates, renamed


@dataclass(frozen=True)
class KnownTemplates:
    """Templates, and what is asked of them for every datagram."""

    templates: Templates
    types: dict[int, MsgType]
    heads: HeadReader
    reader: MessageReader

    def of(self, *kinds: MsgType) -> list[int]:
        """The numbers of the templates of some messages."""
        return [number for number, kind in self.types.items() if kind in kinds]

    @property
    def without_number(self) -> list[int]:
        """Those whose messages have no number that would make one a copy of another."""
        return self.of(*UNNUMBERED)

    @staticmethod
    def made_of(templates: Templates) -> KnownTemplates:
        """What is known of templates."""
        types = {number: message_type(each) for number, each in templates.by_id.items()}
        return KnownTemplates(templates, types, HeadReader(templates), MessageReader(templates))


@cache
def _bundled() -> KnownTemplates:
    return KnownTemplates.made_of(bundled_templates())


_chosen: dict[str, KnownTemplates] = {}
"""The templates of the file that was named for this process; empty if none was."""


def choose_templates(schema_files: Sequence[str]) -> None:
    """Read captures with the templates of a file that the user named, if one is of FAST."""
    named = fast_files(schema_files)
    if len(named) > 1:
        raise UsageError(f"Name one file of FAST templates, not {', '.join(named)}.")
    for name in named:
        if name not in _chosen:
            found = KnownTemplates.made_of(renamed(load_templates(name)))
            _chosen.clear()
            _chosen[name] = found
    if not named:
        _chosen.clear()


def known_templates() -> KnownTemplates:
    """The templates that captures are read with now."""
    return next(iter(_chosen.values()), None) or _bundled()
