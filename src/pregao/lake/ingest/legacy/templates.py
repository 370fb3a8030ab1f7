"""FAST templates for reading captures of the legacy feed: bundled, or from a user's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pregao.errors import UsageError
from pregao.fast.model import Templates
from pregao.fast.xml import load_templates
from pregao.lake.ingest.schema_files import fast_files
from pregao.legacy.bulk import UNNUMBERED, HeadReader
from pregao.legacy.messages import MessageReader, MsgType, message_type
from pregao.schemas.fast_templates import bundled_templates, renamed


@dataclass(frozen=True)
class TemplateSet:
    """Templates, with what is needed of them for every datagram."""

    templates: Templates
    types: dict[int, MsgType]
    heads: HeadReader
    reader: MessageReader

    def of(self, *kinds: MsgType) -> list[int]:
        """Return the IDs of the templates of message types."""
        return [number for number, kind in self.types.items() if kind in kinds]

    @property
    def without_number(self) -> list[int]:
        """IDs of templates whose messages have no number that identifies duplicates."""
        return self.of(*UNNUMBERED)

    @staticmethod
    def from_sources(templates: Templates) -> TemplateSet:
        """Build from templates."""
        types = {number: message_type(each) for number, each in templates.by_id.items()}
        return TemplateSet(templates, types, HeadReader(templates), MessageReader(templates))


@cache
def _bundled() -> TemplateSet:
    return TemplateSet.from_sources(bundled_templates())


_chosen: dict[str, TemplateSet] = {}
"""Templates of the user's file in this process; empty without one."""


def choose_templates(schema_files: Sequence[str]) -> None:
    """Use the FAST templates among a user's schema files, or the bundled ones if there are none."""
    named = fast_files(schema_files)
    if len(named) > 1:
        raise UsageError(f"Only one file of FAST templates is supported, got {', '.join(named)}.")
    for name in named:
        if name not in _chosen:
            found = TemplateSet.from_sources(renamed(load_templates(name)))
            _chosen.clear()
            _chosen[name] = found
    if not named:
        _chosen.clear()


def known_templates() -> TemplateSet:
    """Return the templates in use."""
    return next(iter(_chosen.values()), None) or _bundled()
