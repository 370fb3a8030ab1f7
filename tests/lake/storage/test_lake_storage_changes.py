"""Changes of tables: a lost race is retried, all other errors are reported immediately."""

from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError

from pregao.errors import PregaoError, UsageError
from pregao.lake.ingest.merging import settle_latest
from pregao.lake.storage import delta, intent_log
from pregao.lake.storage.commit_unit import CommitUnit, ReplacedRows, TableSpec
from pregao.lake.storage.delta import LakeTable, change_table, commit_changes, replace_partition
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.optimize import TableLayout, compact_table
from pregao.lake.storage.parquet import stored_schema, stored_type, write_table
from pregao.lake.storage.transaction import until_committed
from tests.lake.lake_support import (
    DAY,
    ORDERS,
    TRADES,
    column,
    counts,
    ingest_row,
    order,
    python,
    unit_of,
    write_file,
)

FULL = "Generic LocalFileSystem error: No space left on device (os error 28)"
CONFLICT = CommitFailedError("Failed to commit transaction: Concurrent transaction failed.")


@pytest.fixture
def commits(monkeypatch):
    """Counts commits to tables, and raises the given errors instead, one per commit."""
    commits = SimpleNamespace(count=0, raised=[])
    real = LakeTable.create_write_transaction

    def commit(self, *arguments, **options):
        commits.count += 1
        if commits.raised:
            raise commits.raised.pop(0)
        real(self, *arguments, **options)

    monkeypatch.setattr(LakeTable, "create_write_transaction", commit)
    return commits


def test_a_lost_race_is_retried_with_the_current_table(small_lake):
    location = small_lake.table_location("orders")
    seen = []

    def work(table):
        seen.append(table.transaction_version("mark"))
        if len(seen) == 1:
            # Between our look and our commit another process is faster.
            change_table(location, lambda other: commit_changes(other, [], {"mark": 1}))
        commit_changes(table, [], {"mark": 2})

    change_table(location, work)
    assert seen == [None, 1]
    assert small_lake.delta("orders").transaction_version("mark") == 2


@pytest.mark.parametrize("error", [OSError(FULL), DeltaError(FULL), PermissionError(13, "denied")])
def test_an_error_of_the_storage_is_not_mistaken_for_a_race(small_lake, commits, error):
    commits.raised = [error]
    unit = unit_of(small_lake.location, "u3", ["c3"])
    commits.count = 0
    with pytest.raises(UsageError, match=r"_intents cannot be written: .*(No space left|denied)"):
        small_lake.commit(unit)
    assert commits.count == 1
    assert counts(small_lake)["orders"] == 4


def test_a_full_disk_is_reported_by_the_commit(small_lake):
    code = """
import resource, signal
from pregao.errors import UsageError
lake = LakeStore(sys.argv[1])
unit = unit_of(lake.location, "u3", ["c3"])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill(step):
    if step == "intended":
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
try:
    lake.commit(unit, watch=fill)
except UsageError as error:
    sys.exit(7 if "orders cannot be written" in str(error) and "too large" in str(error) else 8)
"""
    assert python(code, small_lake.location) == 7
    # What was intended is not lost.
    assert small_lake.roll_forward() == ["u3"]
    assert counts(small_lake)["orders"] == 6


def test_a_race_that_is_always_lost_is_finally_reported(small_lake, commits, monkeypatch):
    monkeypatch.setattr(delta, "_ATTEMPTS", 3)
    commits.raised = [CONFLICT] * 3
    location = small_lake.table_location("orders")
    with pytest.raises(UsageError, match="other processes keep changing this table"):
        change_table(location, lambda table: commit_changes(table, []))
    assert commits.count == 3


DEFINITIONS = TableSpec(
    "instruments",
    pa.schema(
        [
            column("channel", pa.int16()),
            column("security_id", pa.int64()),
            column("sequence_number", pa.int64()),
            column("index_in_packet", pa.int32()),
            column("capture_time_ns", pa.int64()),
            column("date", pa.date32()),
        ]
    ),
)


@pytest.fixture
def crowded(tmp_path):
    """A lake with two definitions of an instrument, in two files."""
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_tables([DEFINITIONS])
    for number in (1, 2):
        row = dict.fromkeys(DEFINITIONS.schema.names, 7) | {"sequence_number": number}
        file = write_file(lake.location, DEFINITIONS, [row])
        lake.commit(CommitUnit(f"u{number}", (f"c{number}",), (file,), (ingest_row(f"c{number}"),)))
    return lake


def numbers(lake):
    return lake.delta("instruments").to_pyarrow_table()["sequence_number"].to_pylist()


def test_instruments_are_settled_also_when_another_process_is_faster(crowded, commits):
    commits.raised = [CONFLICT]
    settle_latest(crowded)
    assert numbers(crowded) == [2]
    assert commits.count == 2


def test_instruments_that_cannot_be_settled_have_a_reason(crowded, commits):
    commits.raised = [OSError(FULL)]
    with pytest.raises(UsageError, match=r"instruments cannot be written: .*No space left"):
        settle_latest(crowded)
    assert commits.count == 1
    assert sorted(numbers(crowded)) == [1, 2]


def test_a_day_is_replaced_or_the_reason_is_reported(small_lake, commits):
    location = small_lake.table_location("orders")
    file = write_file(small_lake.location, ORDERS, [order(1, 99)])
    commits.raised = [DeltaError(FULL)]
    with pytest.raises(UsageError, match=r"orders cannot be written: .*No space left"):
        replace_partition(location, date.fromisoformat(DAY), [file], {"day": 1})
    assert counts(small_lake)["orders"] == 4
    commits.raised = [CONFLICT]
    replace_partition(location, date.fromisoformat(DAY), [file], {"day": 1})
    assert commits.count == 3
    rows = small_lake.delta("orders").to_pyarrow_table(columns=["sequence_number"])
    assert sorted(rows["sequence_number"].to_pylist()) == [3, 4, 99]


def test_a_writer_that_never_commits_first_finally_fails(tmp_path):
    attempts = iter([None, None, "done"])
    lake = LakeStore(tmp_path).location
    assert until_committed(lake, "others are faster", lambda: next(attempts)) == "done"
    with pytest.raises(PregaoError, match="others are faster; try again"):
        until_committed(lake, "others are faster", lambda: None)


# What files hold


def test_files_hold_decimals_as_integers_where_they_fit():
    price = pa.decimal128(18, 4)
    stored = pa.decimal64(18, 4)
    assert stored_type(price) == stored
    assert stored_type(pa.decimal128(38, 4)) == pa.decimal128(38, 4)
    assert stored_type(pa.list_(pa.struct([("price", price)]))) == pa.list_(
        pa.field("element", pa.struct([("price", stored)]))
    )
    assert stored_type(pa.string()) == pa.string()
    assert "date" not in stored_schema(ORDERS.schema).names


def test_rewritten_files_keep_their_encoding(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    schema = stored_schema(ORDERS.schema)
    for number in range(2):
        rows = [order(1, number), order(2, number)]
        table = pa.Table.from_pylist(
            [{name: row[name] for name in schema.names} for row in rows],
            pa.schema([field for field in ORDERS.schema if field.name != "date"]),
        ).cast(schema)
        location = lake.location
        written = write_table(
            location.filesystem,
            location.path,
            "orders",
            table,
            20_594,
            {"sequence_number", "price"},
        )
        unit = CommitUnit(f"u{number}", (), lake.new_files([written]))
        assert lake.commit(unit).committed
    (merged,) = compact_table(lake, "orders", TableLayout(("security_id",), "security_id"))
    assert (merged.files, merged.rows) == (2, 4)
    (file,) = lake.files("orders")
    group = pq.read_metadata(file.path).row_group(0)
    coded = {
        group.column(number).path_in_schema
        for number in range(group.num_columns)
        if "DELTA_BINARY_PACKED" in group.column(number).encodings
    }
    assert coded == {"sequence_number", "price"}
    prices = lake.delta("orders").to_pyarrow_table()["price"].to_pylist()
    assert prices == [Decimal("10.0000")] * 4


# What units replace and report


def test_a_unit_replaces_rows_by_the_values_of_columns(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    first = [order(1, 1), order(1, 2), order(2, 3), order(None, 4)]
    alone = [order(1, 5), order(1, 6)]
    elsewhere = [order(1, 7)]
    files = (
        write_file(tmp_path, ORDERS, first),
        write_file(tmp_path, ORDERS, alone),
        write_file(tmp_path, ORDERS, elsewhere, "2026-05-22"),
    )
    lake.commit(CommitUnit("u1", (), files))

    def replaced(unit_id, *where):
        lake.commit(CommitUnit(unit_id, (), (), replaces=(ReplacedRows("orders", DAY, where),)))
        rows = lake.delta("orders").to_pyarrow_table(columns=["sequence_number"])
        return sorted(rows["sequence_number"].to_pylist())

    assert replaced("u2", ("security_id", (9,))) == [1, 2, 3, 4, 5, 6, 7]
    assert replaced("u3", ("security_id", (1,)), ("sequence_number", (2, 3))) == [1, 3, 4, 5, 6, 7]
    assert replaced("u4", ("security_id", (1,))) == [3, 4, 7]
    assert replaced("u5", ("security_id", ())) == [4, 7]


def test_an_intent_of_version_0_1_is_understood():
    record = (
        '{"files": [], "replaces": [["ticks", "2026-05-21", 72, []], ["gaps", "x", 72, [5, 6]]]}'
    )
    assert intent_log._content(record)[1] == (
        ReplacedRows("ticks", "2026-05-21", (("channel", (72,)), ("security_id", ()))),
        ReplacedRows("gaps", "x", (("channel", (72,)), ("security_id", (5, 6)))),
    )


def test_the_record_of_a_unit_has_its_columns(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    unit = unit_of(tmp_path, "u", ["c"])
    changed = CommitUnit("u", ("c",), unit.files, ({**unit.ingests[0], "weather": "fine"},))
    with pytest.raises(UsageError, match=r"ingests of .* has no column weather"):
        lake.commit(changed)
    more = pa.schema([column("weather", pa.string()), *lake.schema("ingests")])
    lake.ensure_table(TableSpec("ingests", more))
    assert lake.commit(changed).committed
    (row,) = lake.delta("ingests").to_pyarrow_table().to_pylist()
    assert (row["weather"], row["unit_id"]) == ("fine", "u")
    # A writer that needs other tables does not remove the column.
    LakeStore(tmp_path).ensure_table(TRADES)
    assert "weather" in lake.schema("ingests").names
