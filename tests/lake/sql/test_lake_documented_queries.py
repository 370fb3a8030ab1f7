"""Every query that documents, examples of commands and the demonstration show runs, and counts
trades as the exchange left them: without busted ones, corrected ones once.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from pregao.cli import analytics, demo, ingest, query
from pregao.lake import connect
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import analysed, truth_lines
from tests.lake.lake_support import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PAGES.remove(ROOT / "docs" / "queries.md")  # see test_lake_views_queries.py
ON_THE_COMMAND_LINE = re.compile(r'pregao query "(SELECT [^"…]+)"')
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def queries():
    """Queries, by their location in the documents."""
    for page in PAGES:
        text = page.read_text()
        for number, sql in enumerate(ON_THE_COMMAND_LINE.findall(text)):
            yield f"{page.name} {number}", sql
        for number, (kind, sql) in enumerate(FENCED.findall(text)):
            if kind == "sql" and "delta.`" not in sql:  # those are Delta's own connector's
                yield f"{page.name} block {number}", sql
    for module in (analytics, ingest, query):
        for number, sql in enumerate(ON_THE_COMMAND_LINE.findall(module.EPILOG)):
            yield f"{module.__name__} {number}", sql
    for question in demo.QUESTIONS:
        yield question.words, question.sql


QUERIES = dict(queries())


def snippets():
    """The Python of the page about lakes that opens the table of trades."""
    text = (ROOT / "docs" / "lake.md").read_text()
    for kind, code in FENCED.findall(text):
        if kind == "python" and "trades" in code:
            yield code


@pytest.fixture(scope="module")
def lake_and_truth():
    return analysed(books=True, **SETTINGS)


@pytest.fixture(scope="module")
def session(spark, lake_and_truth):
    return connect(lake_and_truth[0].location, spark)


@pytest.fixture(scope="module")
def by_symbol(lake_and_truth):
    """The number and the volume of trades that count, by symbol."""
    stand, busts = {}, 0
    for line in truth_lines(lake_and_truth[1], "trades.jsonl"):
        key = line["security_id"], line["trade_id"]
        if line["action"] == "BUST":
            del stand[key]
            busts += 1
        else:
            stand[key] = line["symbol"], line["size"]
    assert busts
    trades, volume = Counter(), Counter()
    for symbol, size in stand.values():
        trades[symbol] += 1
        volume[symbol] += size
    return {symbol: (trades[symbol], volume[symbol]) for symbol in trades}


def test_there_are_queries_of_every_kind():
    assert len(QUERIES) >= 8
    assert len(list(snippets())) == 4


@pytest.mark.parametrize("sql", list(QUERIES.values()), ids=list(QUERIES))
def test_a_documented_query_runs_and_counts_valid_rows(session, by_symbol, sql):
    found = [row.asDict() for row in session.sql(sql).collect()]
    assert "umdf_trade_53" not in sql
    if "trades" not in sql or not re.search(r"\b(count|sum)\(", sql):
        return
    assert found
    if "symbol" not in found[0]:
        assert list(found[0].values()) == [sum(count for count, _ in by_symbol.values())]
        return
    for row in found:
        volume = row.get("volume", row.get("quantity"))
        assert (row["trades"], volume) == by_symbol[row["symbol"]]


def rows_of(result):
    """The rows of whatever a snippet ends with, as symbol, number and volume."""
    if hasattr(result, "fetchall"):
        return result.fetchall()
    if hasattr(result, "iter_rows"):
        return list(result.iter_rows())
    return [(symbol, *values) for symbol, values in zip(result.index, result.values, strict=True)]


@pytest.mark.parametrize("code", list(snippets()))
def test_the_ways_to_open_the_tables_count_valid_rows(
    spark, monkeypatch, tmp_path, capsys, lake_and_truth, by_symbol, code
):
    (tmp_path / "lake").symlink_to(Path(lake_and_truth[0].location.path))
    monkeypatch.chdir(tmp_path)
    parsed = ast.parse(code)
    last = parsed.body.pop() if ".show()" not in code else None
    names: dict[str, object] = {}
    exec(compile(parsed, "docs/lake.md", "exec"), names)
    if last is None:
        shown = re.findall(r"\|\s*(\w+)\|\s*(\d+)\|\s*(\d+)\|", capsys.readouterr().out)
        found = {symbol: (int(count), int(volume)) for symbol, count, volume in shown}
    else:
        result = eval(compile(ast.Expression(last.value), "docs/lake.md", "eval"), names)
        found = {symbol: (int(count), int(size)) for symbol, count, size in rows_of(result)}
    assert found == by_symbol
