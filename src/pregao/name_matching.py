"""Case-insensitive comparison of names, and suggestions of similar ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 5


def folded(name: str) -> str:
    """Return a name folded for case-insensitive comparison."""
    return name.strip().upper()


def nearness(name: str, wanted: str) -> int:
    """Return the rank of a name for a folded query: 0 if equal, 1 if it starts with it, else 2."""
    own = folded(name)
    return 0 if own == wanted else 1 if own.startswith(wanted) else 2


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the known names most similar to one; those with it as a prefix come first."""
    wanted = folded(name)
    by_key = {folded(each): each for each in known}
    prefixed = [each for key, each in by_key.items() if key.startswith(wanted)][:_NEAR]
    near = [by_key[key] for key in difflib.get_close_matches(wanted, by_key, _NEAR, cutoff)]
    return list(dict.fromkeys([*prefixed, *near]))[:_NEAR]


def did_you_mean(
    name: str, known: Iterable[str], most: int = _NEAR, cutoff: float = 0.6, otherwise: str = ""
) -> str:
    """Return a suggestion of similar names to append to an error message, or ``otherwise``.

    Names with a similarity below ``cutoff`` (0 to 1) are not suggested.
    """
    near = similar(name, known, cutoff)[:most]
    return f" Did you mean {_listed(near)}?" if near else otherwise


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
