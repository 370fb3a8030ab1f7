"""Modules that a command imports: what it does not use would take most of its time."""

import subprocess
import sys

import pytest

from tests.cli.test_cli_hex import SAMPLE
from tests.lake.analytics_support import analysed
from tests.lake.days import day

CODE = """
import atexit, sys
unwanted = sys.argv.pop(1).split()
atexit.register(lambda: print("imported:", *sorted(set(unwanted) & set(sys.modules))))
from pregao.cli.main import run
run()
"""
SERVERS = "asyncio uvicorn starlette"
LIBRARIES = "pandas polars matplotlib pyspark"
LEGACY = "pregao.fast pregao.legacy pregao.feed.legacy pregao.lake.books.legacy_reader"
OTHER_PROTOCOLS = "pregao.lake.ingest.protocols.legacy pregao.lake.ingest.protocols.entrypoint"


def imported(unwanted, *arguments):
    """Run a command in a new process; return its exit code and which modules it imported."""
    command = [sys.executable, "-c", CODE, unwanted, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    *output, last = done.stdout.splitlines()
    assert output, done.stderr
    return done.returncode, last.removeprefix("imported:").split()


@pytest.mark.parametrize("arguments", [["--help"], ["book", "--help"], ["--version"]])
def test_help_imports_no_library(arguments):
    assert imported(f"{SERVERS} {LIBRARIES} ssl numpy numba pyarrow duckdb", *arguments) == (0, [])


def test_a_pasted_packet_is_decoded_without_arrow():
    unwanted = f"{SERVERS} {LIBRARIES} ssl pyarrow deltalake duckdb"
    assert imported(unwanted, "decode", "--hex", SAMPLE) == (0, [])


def test_a_survey_imports_no_server_and_no_data_frames():
    capture = next(day().glob("*_InstrumentDefinition.pcap"))
    assert imported(f"{SERVERS} {LIBRARIES} deltalake duckdb", "info", capture) == (0, [])


def test_a_query_imports_no_server_and_no_data_frames():
    lake = analysed(["trades"], books=True)[0].location.path
    unwanted = f"{SERVERS} {LIBRARIES} numba pregao.capture"
    assert imported(unwanted, "query", "SELECT count(*) FROM trades", "--lake", lake) == (0, [])


def test_a_book_imports_no_server_no_data_frames_and_no_legacy_feed():
    lake = analysed(["trades"], books=True)[0].location.path
    unwanted = f"{SERVERS} {LIBRARIES} duckdb {LEGACY} pregao.entrypoint {OTHER_PROTOCOLS}"
    assert imported(unwanted, "book", "PETR3", "--lake", lake) == (0, [])
