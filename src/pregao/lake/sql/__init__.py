"""SQL queries on the tables of a lake, run by DuckDB in this process or by Spark.

Only statements that read are accepted. Both engines return an `Answer`; they differ only in their
SQL dialect.
"""

from pregao.lake.engine_names import EngineName
from pregao.lake.sql.answers import Answer, Engine
from pregao.lake.sql.engines import choose_engine, open_engine
from pregao.lake.sql.examples import Example, example, examples
from pregao.lake.sql.statements import require_query

__all__ = [
    "Answer",
    "Engine",
    "EngineName",
    "Example",
    "choose_engine",
    "example",
    "examples",
    "open_engine",
    "require_query",
]
