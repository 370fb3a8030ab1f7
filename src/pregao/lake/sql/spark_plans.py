"""A user's text as Spark's own parser reads it: one query, and nothing in it that runs code.

In a process with Java (`require_query_plan`) the parsed plan is walked: nodes that are not known to
belong to queries are refused, and so are functions that call into Java, programs, and files named
as tables. On Spark Connect there is no parser on this side; see `wrapped_query`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pregao.errors import UsageError
from pregao.lake.sql.statements import beyond, first_word, not_a_query

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_WRITING = (f"{_PLANS}.Command", f"{_PLANS}.ParsedStatement")
# The nodes that queries are made of, as the parser gives them.
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
# Functions after FROM that make rows of their arguments.
_TABLE_FUNCTIONS = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode",
    "posexplode_outer", "range", "sql_keywords", "stack", "variant_explode",
    "variant_explode_outer",
})  # fmt: skip
_FILE_FORMATS = frozenset({
    "avro", "b3", "binaryfile", "csv", "delta", "hudi", "iceberg", "jdbc", "json", "kafka", "orc",
    "parquet", "protobuf", "text", "xml",
})  # fmt: skip
# A name that an expression makes: what it comes to is known when it is too late.
_MADE_NAMES = ("PlanWithUnresolvedIdentifier", "ExpressionWithUnresolvedIdentifier")
# Without one of these words in its text a plan has no such function.
_JAVA_WORDS = re.compile(r"\b(reflect|try_reflect|java_method|identifier)\b", re.IGNORECASE)
_MAX_NODES = 20_000


def require_query_plan(java: Any, plan: Any, sql: str, *, unsafe: bool) -> None:
    """Refuse a parsed plan that is anything but one query, or a question about tables.

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
            raise UsageError("The query has too many parts, so nothing was run: write it shorter.")
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
    if kind in _MADE_NAMES:
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
    """Refuse functions that call into Java; and queries within, if they would not be found else."""
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        kind = _class_of(expression)
        if kind in _MADE_NAMES:
            raise beyond("IDENTIFIER(…)")
        if kind == "UnresolvedFunction":
            name = str(expression.nameParts().last()).lower()
            if name in _JAVA_CALLS:
                raise beyond(name)
        if alone and ("Subquery" in kind or kind in ("Exists", "ListQuery")):
            raise UsageError("A WINDOW clause takes no query within it, so nothing was run.")
        pending += _items(expression.children())


def _class_of(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name.rstrip("$")


def _nodes(plan: Any) -> Iterator[Any]:
    """A plan and everything below it: named parts (WITH), and queries within expressions."""
    yield plan
    for parts in (plan.children(), plan.innerChildren()):
        for part in _items(parts):
            yield from _nodes(part)


def _items(parts: Any) -> Iterator[Any]:
    for place in range(parts.size()):
        yield parts.apply(place)


_ASKED = re.compile(r"[ \t\r\n]*(?:show|describe|desc)[ \t\r\n]", re.IGNORECASE)
_EXPLAINED = re.compile(
    r"[ \t\r\n]*explain(?:[ \t\r\n]+(extended|codegen|cost|formatted))?(?=[ \t\r\n(])",
    re.IGNORECASE,
)


def wrapped_query(sql: str) -> str:
    """A text as a part of a query, for a server whose parser is the only one.

    Spark takes one statement at a time, one that begins with SELECT is a query with nothing but
    queries in it, and so is a member of WITH, which the text has to be: one that writes, or that is
    several statements, is a syntax error there. A text that begins with SHOW or DESCRIBE is a
    question by the same grammar.
    """
    body = sql.rstrip("; \t\r\n")
    if _ASKED.match(body):
        return body
    mode = ""
    if explained := _EXPLAINED.match(body):
        mode = f"EXPLAIN {explained.group(1) or ''} "
        body = body[explained.end() :]
    inner = f"WITH pregao_query AS (\n{body}\n) SELECT * FROM pregao_query"  # noqa: S608
    return f"{mode}SELECT * FROM ({inner})"  # noqa: S608 - the text can be nothing but a query


# A function is named by a word of the text, or by IDENTIFIER; a program by USING and a text.
_CODE = re.compile(
    r"\b(reflect|try_reflect|java_method|identifier)\b|\b(using)\b(?![ \t\r\n]*\()", re.IGNORECASE
)


def refuse_code(sql: str) -> None:
    """Refuse the words without which a text runs no code, wherever they stand in it.

    Without a parser on this side a word is enough, even within quotes.
    """
    if found := _CODE.search(sql):
        raise beyond(found.group().lower())
