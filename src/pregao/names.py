"""Names as users write them: compared in any case, and the nearest of those that there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 5


def folded(name: str) -> str:
    """A name such that two ways to write it in other cases are equal."""
    return name.strip().upper()


def nearness(name: str, wanted: str) -> int:
    """How far a name is from folded words: 0 if it is these, 1 if it begins so, else 2."""
    own = folded(name)
    return 0 if own == wanted else 1 if own.startswith(wanted) else 2


def similar(name: str, known: Iterable[str]) -> list[str]:
    """The names that are nearest to one that nobody has: those that begin like it come first."""
    wanted = folded(name)
    by_key = {folded(one): one for one in known}
    begin = [one for key, one in by_key.items() if key.startswith(wanted)][:_NEAR]
    near = [by_key[key] for key in difflib.get_close_matches(wanted, by_key, _NEAR, 0.6)]
    return list(dict.fromkeys([*begin, *near]))[:_NEAR]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question for the names that are like this one, to follow a sentence; empty if none are."""
    near = similar(name, known)
    return f" Did you mean {_listed(near)}?" if near else ""


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
