"""The data dictionary: every table with its columns and their meaning, as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.books.schemas import DEFAULT_DEPTH
from pregao.lake.books.schemas import specs as book_specs
from pregao.lake.ingest.tables import table_specs
from pregao.lake.storage.commit_unit import TableSpec
from pregao.lake.storage.delta import comment_of, type_name
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.definitions import view_of

_HEAD = """# Data dictionary

Every table and column of a lake, generated from the comments of the tables:
`pregao lake dictionary -o docs/dictionary.md --force` writes this page; with `--lake` it describes
the tables of that lake. [lake.md](lake.md) explains what the tables are for and how they relate.

Each table has a view with the prefix `v_`: the columns of the table, and the additional ones listed
below it.
"""


def own_specs() -> list[TableSpec]:
    """Return the specs of the tables that this version writes."""
    specs = [
        *table_specs(),
        *book_specs(DEFAULT_DEPTH),
        *(each.spec for each in ANALYTICS.values()),
    ]
    # Tables whose name starts with _ are internal.
    return list({spec.name: spec for spec in specs if not spec.name.startswith("_")}.values())


def lake_specs(lake: LakeStore) -> list[TableSpec]:
    """Return the specs of the tables of a lake."""
    return [
        TableSpec(
            name, lake.schema(name), description=lake.delta(name).metadata().description or ""
        )
        for name in lake.table_names()
    ]


def dictionary(specs: Iterable[TableSpec]) -> str:
    """Return the Markdown page of tables."""
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
        yield f"\nOnly in `{view.name}`: {', '.join(f'`{name}`' for name in more)}."
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
