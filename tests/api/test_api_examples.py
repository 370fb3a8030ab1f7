"""Every script in examples/ that needs no network runs, and says something true."""

import os
import runpy
import sys
from pathlib import Path

import pytest

import pregao

EXAMPLES = Path(pregao.__file__).parents[2] / "examples"
ELSEWHERE = {
    "entrypoint_client", "live_bars", "live_recorder", "live_top_of_book",
    "query_duckdb", "query_pandas", "query_polars", "query_pyarrow", "query_spark",
}  # fmt: skip
"""Those that other tests run: with an exchange, over loopback, with Spark."""
LINE = "{day}/051_Incremental_A.pcap"
RUNS = {
    "simulate_day": (["{tmp}/made"], "messages in"),
    "read_messages": ([LINE], "ChannelReset_11"),
    "read_trades": ([LINE], "md_entry_px"),
    "count_templates": ([LINE], "Order_MBO_50"),
    "find_gaps": ([LINE], "channel 51, version 1"),
    "book_from_messages": ([LINE, "PETR4"], "orders"),
    "follow_channel": (["{day}"], "TradeDone"),
    "spread_over_time": (["{day}", "PETR4"], "0.0"),
    "ingest_day": (["{day}", "{lake}"], "decoded"),
    "book_at_moment": (["{lake}", "PETR4", "2026-05-21 09:02"], "PETR4 2026-05-21"),
    "audit_books": (["{lake}"], "snapshots equal"),
    "vwap_by_symbol": (["{lake}"], "PETR"),
    "order_lifetimes": (["{lake}"], "CANCELLED"),
    "scan_ticks": (["{lake}"], "average spread"),
    "plot_book": (["{lake}", "PETR4", "{tmp}/book.png"], ""),
    "export_backtest": (["{lake}", "PETR4", "{tmp}/day.npz"], "events"),
}


def test_every_example_is_run_by_some_test():
    there = {path.stem for path in EXAMPLES.glob("*.py")}
    assert there == ELSEWHERE | set(RUNS)
    assert len(there) >= 20


def test_the_list_names_every_example():
    listed = (EXAMPLES / "README.md").read_text()
    for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")]:
        assert f"({path.name})" in listed


def test_every_example_opens_with_what_it_does_and_how_it_is_run():
    for path in EXAMPLES.glob("*.py"):
        first = path.read_text().partition("\n")[0]
        assert f"python examples/{path.name}" in first, path


@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(name, day, lake, tmp_path, monkeypatch, capsys):
    arguments, shown = RUNS[name]
    path = repr(lake).split("'")[1]
    words = [each.format(day=day, lake=path, tmp=tmp_path) for each in arguments]
    monkeypatch.setattr(sys, "argv", [name, *words])
    if name == "export_backtest":  # it runs a command, which needs the package on its path
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert shown in capsys.readouterr().out
