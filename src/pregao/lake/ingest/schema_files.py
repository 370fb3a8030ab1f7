"""Sort a user's schema files into SBE schemas and FAST templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_HEAD = 1 << 16
_ROOT = re.compile(rb"<(?:[\w.-]+:)?([A-Za-z][\w.-]*)[\s/>]")


def fast_files(named: Sequence[str]) -> list[str]:
    """Return the files with FAST templates."""
    return [name for name in named if _is_fast(name)]


def sbe_files(named: Sequence[str]) -> list[str]:
    """Return the other files; invalid ones are reported when they are loaded."""
    return [name for name in named if not _is_fast(name)]


def _is_fast(name: str) -> bool:
    try:
        with Path(name).open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    root = _ROOT.search(re.sub(rb"<!--.*?-->", b"", head, flags=re.DOTALL))
    return root is not None and root.group(1) in (b"templates", b"template")
