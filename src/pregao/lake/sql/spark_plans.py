"""Check of a user's SQL with Spark's own parser: one query, with nothing in it that runs code.

In a process with Java (`require_query_plan`) the parsed plan is walked: nodes that are not known to
belong to queries are refused, and so are functions that call into Java, programs, and files named
as tables. A Spark Connect client has no parser; see `wrapped_query`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pregao.errors import UsageError
from pregao.lake.sql.query_guard import beyond, first_word, not_a_query

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_WRITING = (f"{_PLANS}.Command", f"{_PLANS}.ParsedStatement")
# Plan nodes of queries, as the parser returns them.
_QUERY_NODES = frozenset({
    "Aggregate", "AsOfJoin", "CTERelationDef", "CTERelationRef", "Deduplicate", "Distinct",
    "Except", "Expand", "Filter", "Generate", "GlobalLimit", "Intersect", "Join", "LateralJoin",
    "LimitAll", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "PipeOperator", "Pivot",
    "Project", "Range", "RebalancePartitions", "Repartition", "RepartitionByExpression",
    "ResolvedInlineTable", "Sample", "Sort", "SubqueryAlias", "Union", "UnresolvedHaving",
    "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation",
    "UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedTableValuedFunction",
    "UnresolvedWith", "UnresolvedQualify", "UnionLoop", "UnionLoopRef", "Unpivot", "Window",
    "WithCTE", "WithWindowDefinition",
})  # fmt: skip
_QUESTIONS = ("Show", "Describe")
_JAVA_CALLS = frozenset({"reflect", "try_reflect", "java_method"})
# Table functions that build rows from their arguments.
_TABLE_FUNCTIONS = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode",
    "posexplode_outer", "range", "sql_keywords", "stack", "variant_explode",
    "variant_explode_outer",
})  # fmt: skip
_FILE_FORMATS = frozenset({
    "avro", "b3", "binaryfile", "csv", "delta", "hudi", "iceberg", "jdbc", "json", "kafka", "orc",
    "parquet", "protobuf", "text", "xml",
})  # fmt: skip
# A name computed by an expression: its value is known only after this check.
_CREATED_NAMES = ("PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier")
# A plan has such functions only if one of these words is in its text.
_JAVA_WORDS = re.compile(r"\b(reflect|try_reflect|java_method|identifier)\b", re.IGNORECASE)
_MAX_NODES = 20_000


def require_query_plan(java: Any, plan: Any, sql: str, *, unsafe: bool) -> None:
    """Refuse a parsed plan unless it is one query, or a SHOW or DESCRIBE statement.

    ``sql`` is its text: a name that is not in it is not in the plan either.
    """
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    writing = [java.java.lang.Class.forName(name, True, loader) for name in _WRITING]
    kind = _class_of(plan)
    if kind == "ExplainCommand":
        plan = plan.logicalPlan()
        kind = _class_of(plan)
    if kind == "DescribeQueryCommand":
        plan = plan.plan()
    elif kind.startswith(_QUESTIONS):
        return
    deep = _JAVA_WORDS.search(sql) is not None
    for count, node in enumerate(_nodes(plan)):
        if count > _MAX_NODES:
            raise UsageError("The query has too many parts, so nothing was run: shorten it.")
        kind = _class_of(node)
        program = "ScriptTransformation" in kind
        if not unsafe:
            _require_lake_only(node, kind, program)
        if any(each.isInstance(node) for each in writing):
            raise not_a_query(first_word(sql).upper())
        if kind not in _QUERY_NODES and not program:
            raise not_a_query("" if kind == "CompoundBody" else kind)
        if kind == "WithWindowDefinition":
            _require_own_functions(_items(node.windowDefinitions().values().toSeq()), alone=True)
        elif deep and not unsafe:
            _require_own_functions(_items(node.expressions()))


def _require_lake_only(node: Any, kind: str, program: bool) -> None:
    if program:
        raise beyond("TRANSFORM … USING")
    if kind in _CREATED_NAMES:
        raise beyond("IDENTIFIER(…)")
    if kind == "UnresolvedRelation":
        parts = [str(part) for part in _items(node.multipartIdentifier())]
        if len(parts) > 1 and (parts[0].lower() in _FILE_FORMATS or "/" in parts[-1]):
            raise beyond(f"{parts[0]}.`…`")
    if kind == "UnresolvedTableValuedFunction":
        parts = [str(part) for part in _items(node.name())]
        if parts[-1].lower() not in _TABLE_FUNCTIONS:
            raise beyond(parts[-1])


def _require_own_functions(expressions: Iterator[Any], *, alone: bool = False) -> None:
    """Refuse functions that call into Java; if ``alone``, subqueries too.

    ``alone`` is for expressions whose subqueries the walk of the plan does not reach.
    """
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        kind = _class_of(expression)
        if kind in _CREATED_NAMES:
            raise beyond("IDENTIFIER(…)")
        if kind == "UnresolvedFunction":
            name = str(expression.nameParts().last()).lower()
            if name in _JAVA_CALLS:
                raise beyond(name)
        if alone and ("Subquery" in kind or kind in ("Exists", "ListQuery")):
            raise UsageError("A WINDOW clause must not contain a subquery, so nothing was run.")
        pending += _items(expression.children())


def _class_of(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name.rstrip("$")


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield a plan and all nodes below it, including members of WITH and subqueries."""
    yield plan
    for parts in (plan.children(), plan.innerChildren()):
        for part in _items(parts):
            yield from _nodes(part)


def _items(parts: Any) -> Iterator[Any]:
    for index in range(parts.size()):
        yield parts.apply(index)


_REQUESTED = re.compile(r"[ \t\r\n]*(?:show|describe|desc)[ \t\r\n]", re.IGNORECASE)
_EXPLAINED = re.compile(
    r"[ \t\r\n]*explain(?:[ \t\r\n]+(extended|codegen|cost|formatted))?(?=[ \t\r\n(])",
    re.IGNORECASE,
)


def wrapped_query(sql: str) -> str:
    """Wrap a text in a query, for a server that has the only parser.

    Spark accepts one statement at a time. A statement that begins with SELECT contains only
    queries, and so does a member of WITH, which the text becomes here: a text that writes, or that
    has several statements, is a syntax error there. By the same grammar a text that begins with
    SHOW or DESCRIBE only reads; it is not wrapped.
    """
    body = sql.rstrip("; \t\r\n")
    if _REQUESTED.match(body):
        return body
    mode = ""
    if explained := _EXPLAINED.match(body):
        mode = f"EXPLAIN {explained.group(1) or ''} "
        body = body[explained.end() :]
    inner = f"WITH pregao_query AS (\n{body}\n) SELECT * FROM pregao_query"  # noqa: S608
    return f"{mode}SELECT * FROM ({inner})"  # noqa: S608 - the text can only be a query


# Functions are named by a word of the text or by IDENTIFIER, programs by USING and a string.
_CODE = re.compile(
    r"\b(reflect|try_reflect|java_method|identifier)\b|\b(using)\b(?![ \t\r\n]*\()", re.IGNORECASE
)


def refuse_code(sql: str) -> None:
    """Refuse a text that contains a word needed to run code.

    Without a parser on the client the word alone is refused, even inside quotes.
    """
    if found := _CODE.search(sql):
        raise beyond(found.group().lower())
