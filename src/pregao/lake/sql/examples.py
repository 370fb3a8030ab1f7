"""Bundled queries, in the folder ``queries``; both engines return the same rows for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from pregao.errors import UsageError
from pregao.name_matching import did_you_mean


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """A bundled query with its name and description."""

    name: str
    answers: str
    sql: str


@cache
def examples() -> tuple[ExampleQuery, ...]:
    """Return all bundled queries, sorted by name."""
    folder = resources.files("pregao.lake.sql") / "queries"
    found = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            lines = file.read_text(encoding="utf-8").splitlines()
            head = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
            body = "\n".join(line for line in lines if not line.startswith("--"))
            found.append(ExampleQuery(file.name.removesuffix(".sql"), " ".join(head), body))
    return tuple(found)


def example(name: str) -> ExampleQuery:
    """Return a bundled query by name.

    Raises:
        UsageError: There is no such query; the message suggests a similar name.
    """
    known = {each.name: each for each in examples()}
    wanted = name.strip().lower().replace("-", "_").removesuffix(".sql")
    if wanted not in known:
        hint = did_you_mean(wanted, known, 1, 0.4)
        raise UsageError(
            f"There is no bundled query {name!r}.{hint} `pregao query --examples` lists them."
        )
    return known[wanted]


_HEAD = """# Queries

These queries are bundled: `pregao query --example NAME --lake lake` runs one, `pregao query
--examples` lists them. DuckDB and Spark return the same rows. They read the
[views](lake.md#views), so most need the tables of `pregao books` and `pregao analytics` too. The
files are in [src/pregao/lake/sql/queries](../src/pregao/lake/sql/queries).

Your own queries must be one statement that reads; [cli.md](cli.md#query) lists what is accepted.
"""


def page() -> str:
    """Return all bundled queries as a Markdown page."""
    parts = [f"## {one.name}\n\n{one.answers}\n\n```sql\n{one.sql}\n```\n" for one in examples()]
    return "\n".join([_HEAD, *parts])
