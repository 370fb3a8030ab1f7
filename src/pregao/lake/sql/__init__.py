"""SQL on the tables of a lake: one question, answered by DuckDB in this process or by Spark.

Only queries are taken. What an engine answers is an `Answer`; which engine it is makes no other
difference than the dialect of its SQL.
"""

from pregao.lake.sql.answers import Answer, Engine
from pregao.lake.sql.engines import EngineName, choose_engine, open_engine
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
