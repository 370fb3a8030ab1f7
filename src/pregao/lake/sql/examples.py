"""Queries that analysts ask, as files beside this one; both engines give the same rows."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from pregao.errors import UsageError


@dataclass(frozen=True, slots=True)
class Example:
    """A query with its name and what it answers."""

    name: str
    answers: str
    sql: str


@cache
def examples() -> tuple[Example, ...]:
    """All of them, by name."""
    folder = resources.files("pregao.lake.sql") / "queries"
    found = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            lines = file.read_text(encoding="utf-8").splitlines()
            head = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
            body = "\n".join(line for line in lines if not line.startswith("--"))
            found.append(Example(file.name.removesuffix(".sql"), " ".join(head), body))
    return tuple(found)


def example(name: str) -> Example:
    """The one of that name; an unknown one is an error that tells similar names."""
    known = {each.name: each for each in examples()}
    wanted = name.strip().lower().replace("-", "_").removesuffix(".sql")
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 1, 0.4)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"There is no example {name!r}.{meant} `pregao query --examples` lists them."
        )
    return known[wanted]


_HEAD = """# Queries

These queries come along: `pregao query --example NAME --lake lake` asks one, `pregao query
--examples` lists them. DuckDB and Spark give the same rows. They ask the
[views](lake.md#views), so most need the tables of `pregao books` and `pregao analytics` too. The
files are in [src/pregao/lake/sql/queries](../src/pregao/lake/sql/queries).

A query of your own is one statement that reads: [cli.md](cli.md#query) says what is taken.
"""


def page() -> str:
    """All of them as a page of Markdown."""
    parts = [f"## {one.name}\n\n{one.answers}\n\n```sql\n{one.sql}\n```\n" for one in examples()]
    return "\n".join([_HEAD, *parts])
