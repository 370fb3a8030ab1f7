"""Which number a symbol had, by day."""

import json
from datetime import date

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pregao.cli.main import app
from pregao.errors import UsageError
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.symbols import find_symbol
from tests.lake.lake_support import column, write_file

INSTRUMENTS = TableSpec(
    "instruments",
    pa.schema(
        [
            column("channel", pa.int16()),
            column("security_id", pa.int64()),
            column("symbol", pa.string()),
            column("security_group", pa.string()),
            column("date", pa.date32()),
        ]
    ),
)


@pytest.fixture
def lake(tmp_path):
    """PETR4 has another number from the third day on; a number goes to another symbol."""
    lake = LakeStore(tmp_path)
    lake.ensure_tables([INSTRUMENTS])
    days = {
        "2026-05-19": [(51, 7, "PETR4"), (51, 8, "VALE3")],
        "2026-05-20": [(51, 7, "PETR4"), (72, 7, "PETR4"), (51, 8, "VALE3")],
        "2026-05-21": [(51, 9, "PETR4"), (51, 7, "PETR3"), (51, 10, None)],
    }
    for number, (day, known) in enumerate(days.items()):
        rows = [
            {"channel": channel, "security_id": security, "symbol": symbol, "security_group": "01"}
            for channel, security, symbol in known
        ]
        file = write_file(tmp_path, INSTRUMENTS, rows, day)
        lake.commit(CommitUnit(f"u{number}", (f"c{number}",), (file,)))
    return lake


def test_a_symbol_over_the_days(lake):
    found = [
        (one.security_id, one.channel, one.first_day.day, one.last_day.day, one.days)
        for one in find_symbol(lake, "petr4")
    ]
    assert found == [(9, 51, 21, 21, 1), (7, 51, 19, 20, 2), (7, 72, 20, 20, 1)]


def test_a_symbol_on_a_day(lake):
    (one,) = find_symbol(lake, "PETR4", date(2026, 5, 19))
    assert (one.security_id, one.channel, one.security_group) == (7, 51, "01")


def test_a_number_is_looked_up_too(lake):
    assert {one.symbol for one in find_symbol(lake, "7")} == {"PETR4", "PETR3"}
    assert [one.symbol for one in find_symbol(lake, "10")] == [None]


@pytest.mark.parametrize(
    ("name", "day", "message"),
    [
        ("PETR5", None, r"knows no instrument PETR5\. Did you mean PETR4 or PETR3\?"),
        ("pet", None, r"Did you mean PETR3 or PETR4\?"),
        ("VALE3", date(2026, 5, 21), r"no instrument VALE3 on 2026-05-21\.$"),
        ("99999999999999999999999", None, "knows no instrument 9"),
        ("²", None, "knows no instrument"),
        ("PETR4", date(2020, 1, 1), "definitions of 2020-01-01; it has those of 2026-05-19 to"),
    ],
)
def test_unknown_names_are_reported_with_suggestions(lake, name, day, message):
    with pytest.raises(UsageError, match=message):
        find_symbol(lake, name, day)


def test_the_command_reports_it_too(lake):
    location = str(lake.location)
    shown = CliRunner().invoke(app, ["lake", "symbol", "VALE3", "--lake", location])
    assert shown.exit_code == 0, shown.output
    assert "2026-05-19" in shown.output
    arguments = ["lake", "symbol", "VALE3", "--lake", location, "--date", "2026-05-20", "--json"]
    (one,) = json.loads(CliRunner().invoke(app, arguments).output)
    assert (one["security_id"], one["days"], one["last_day"]) == (8, 1, "2026-05-20")
