"""The guide in docs/architecture.md: its rows name code that exists, its lists code that runs."""

import ast
import json
import re
import sys
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

import pregao
from pregao.clock import format_ns
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import Exchange
from tests.lake.book_days import simulate

ROOT = Path(pregao.__file__).parents[2]
CODE = r"`(?P<path>src/pregao/[\w/]+\.py)` `(?P<name>[\w.]+)`"
MIN_ROWS = 60
MAX_PACKET_FUNCTIONS = 25
MAX_ORDER_FUNCTIONS = 20


def rows(heading, pattern):
    """The rows of the table below a heading; every line of the table must match the pattern."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, found, section = page.partition(f"\n{heading}\n")
    assert found, heading
    section = re.split(r"\n##+ ", section)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    matches = [re.fullmatch(pattern, line) for line in lines]
    assert None not in matches, lines[matches.index(None)]
    return matches


def index():
    return rows("## Where to look", rf"\| (?P<what>[^|]+) \| {CODE} \|")


def functions(heading):
    """The numbered functions below a heading, as pairs of file and qualified name."""
    found = rows(heading, rf"\| (?P<number>\d+) \| {CODE} \| [^|]+ \|")
    assert [int(row["number"]) for row in found] == list(range(1, len(found) + 1))
    return [(row["path"], row["name"]) for row in found]


def packet_functions():
    return functions("### A packet, from a capture file to `pregao book --at`")


def order_functions():
    return functions("### An order, from the socket to its execution report")


@cache
def definitions(path):
    """The functions and classes of a file, methods as `Class.method`."""
    names = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
            names.update(
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
            )
    return names


def test_the_index_has_at_least_60_rows_and_none_twice():
    found = index()
    assert len(found) >= MIN_ROWS
    assert len({row["what"] for row in found}) == len(found)
    assert len({(row["path"], row["name"]) for row in found}) == len(found)


def test_every_row_of_the_index_names_a_definition():
    missing = [
        (row["path"], row["name"])
        for row in index()
        if not (ROOT / row["path"]).is_file() or row["name"] not in definitions(row["path"])
    ]
    assert missing == []


@pytest.mark.parametrize("listed", [packet_functions, order_functions])
def test_every_function_of_a_list_is_defined(listed):
    assert [each for each in listed() if each[1] not in definitions(each[0])] == []


class Calls:
    """Order of the first calls of some functions, from the first call of the first one on.

    Earlier calls are not counted: the survey of an ingest samples captures with functions that its
    tasks use later, and a server is never idle.
    """

    def __init__(self, chosen):
        self.chosen = {(str(ROOT / path), name): (path, name) for path, name in chosen}
        self.start = chosen[0]
        self.first = []

    def profile(self, frame, event, _argument):
        if event == "call":
            code = frame.f_code
            called = self.chosen.get((code.co_filename, code.co_qualname))
            if called is None or called in self.first:
                return
            if self.first or called == self.start:
                self.first.append(called)

    @contextmanager
    def recorded(self):
        """Record calls of this thread, and of threads that start meanwhile."""
        before = sys.getprofile(), threading.getprofile()
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        try:
            yield
        finally:
            sys.setprofile(before[0])
            threading.setprofile(before[1])


def test_a_packet_passes_through_the_listed_functions_in_this_order(tmp_path, capsys):
    import typer

    from pregao.cli.book import book
    from pregao.lake.books.build import build_books
    from pregao.lake.ingest.pipeline import ingest

    listed = packet_functions()
    assert len(listed) <= MAX_PACKET_FUNCTIONS
    folder = simulate(tmp_path / "day", seconds=2, rate=100.0, instruments=2)
    captures = [str(path) for path in sorted(folder.glob("*.pcap"))]
    lines = (folder / "truth" / "books.jsonl").read_text(encoding="utf-8").splitlines()
    truths = [line for line in map(json.loads, lines) if line["symbol"] == "PETR4"]
    truth = truths[len(truths) // 2]
    lake = str(tmp_path / "lake")
    calls = Calls(listed)
    with calls.recorded():
        ingest(captures, lake)
        build_books(lake)
        with pytest.raises(typer.Exit) as ended:
            book("PETR4", lake, at=format_ns(truth["time_ns"]))
    assert ended.value.exit_code == 0
    shown = capsys.readouterr().out
    assert truth["bids"][0][0] in shown
    assert truth["asks"][0][0] in shown
    assert calls.first == listed


def test_an_order_passes_through_the_listed_functions_in_this_order(tmp_path):
    listed = order_functions()
    assert len(listed) <= MAX_ORDER_FUNCTIONS
    calls = Calls(listed)
    with calls.recorded(), Exchange(journal=tmp_path / "journal") as exchange:
        buyer = exchange.trader()
        seller = exchange.trader(session_id=SESSION + 2)
        buyer.new(1, quantity=1000, price=12)
        buyer.one("ExecutionReport_New")
        # The exchange's thread records now only what the next order calls.
        exchange.call(lambda _: calls.first.clear())
        seller.new(2, "SELL", 200, 12)
        assert [name for name, _ in seller.read_messages(2)] == [
            "ExecutionReport_New",
            "ExecutionReport_Trade",
        ]
        recorded = exchange.call(lambda _: list(calls.first))
    assert recorded == listed
