"""Column names: the schema's names in snake_case (`mDEntryPx` → `md_entry_px`)."""

from __future__ import annotations

import re
from functools import cache

_ACRONYM_END = re.compile(r"([A-Z]+)([A-Z][a-z])")
_WORD_START = re.compile(r"([a-z0-9])([A-Z])")


@cache
def snake_case(name: str) -> str:
    """Convert a name to snake_case; acronyms stay together (``mDEntryPx`` → ``md_entry_px``)."""
    name = name[:1].upper() + name[1:]
    name = _ACRONYM_END.sub(r"\1_\2", name)
    name = _WORD_START.sub(r"\1_\2", name)
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def is_padding(name: str) -> bool:
    """Whether a field is only padding."""
    return name.lower().startswith("padding")
