"""The data dictionary: every table with its columns and what they mean, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pregao.lake.analytics import ANALYTICS
from pregao.lake.books.tables import DEFAULT_DEPTH
from pregao.lake.books.tables import specs as book_specs
from pregao.lake.ingest import table_specs, type_name
from pregao.lake.store import Lake, TableSpec, comment_of
from pregao.lake.views import view_of

_HEAD = """# Data dictionary

Every table of a lake and every column, made from the comments that the tables carry themselves:
`pregao lake dictionary -o docs/dictionary.md --force` writes this page, with `--lake` that of a
lake. What the tables are about, and how they go together, is in [lake.md](lake.md).

Each table has a view with `v_` before its name: the columns of the table, and those that are named
below it.
"""


def own_specs() -> list[TableSpec]:
    """The tables that this version makes."""
    made = [*table_specs(), *book_specs(DEFAULT_DEPTH), *(each.spec for each in ANALYTICS.values())]
    # Tables with _ are the lake's own business.
    return list({spec.name: spec for spec in made if not spec.name.startswith("_")}.values())


def lake_specs(lake: Lake) -> list[TableSpec]:
    """The tables of a lake."""
    return [
        TableSpec(
            name, lake.schema(name), description=lake.delta(name).metadata().description or ""
        )
        for name in lake.table_names()
    ]


def dictionary(specs: Iterable[TableSpec]) -> str:
    """The page of these tables."""
    tables = {spec.name: spec for spec in specs}
    columns = {name: frozenset(spec.schema.names) for name, spec in tables.items()}
    listed = "\n".join(
        f"| [`{spec.name}`](#{spec.name}) | {_cell(spec.description)} | {len(spec.schema)} |"
        for spec in tables.values()
    )
    parts = [_HEAD, f"| Table | One row is | Columns |\n|---|---|---|\n{listed}\n"]
    parts += ["\n".join(_section(spec, columns)) for spec in tables.values()]
    return "\n".join(parts)


def _section(spec: TableSpec, others: Mapping[str, frozenset[str]]) -> Iterator[str]:
    yield f"## {spec.name}\n"
    if spec.description:
        yield f"{spec.description}\n"
    yield "| Column | Type | Meaning |"
    yield "|---|---|---|"
    for field in spec.schema:
        kind = type_name(field.type).replace(",", ", ")
        yield f"| `{field.name}` | {_cell(kind)} | {_cell(comment_of(field))} |"
    view = view_of(spec.name, spec.schema, others)
    more = [column.name for column in view.columns if column.name not in spec.schema.names]
    if more:
        yield f"\nOf `{view.name}` alone: {', '.join(f'`{name}`' for name in more)}."
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
