"""Tables of a lake: made once, widened, listed, read by others."""

import json
import re
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pregao.errors import UsageError
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_files import has_exited, own_name, shown_name
from tests.lake.lake_support import (
    DAY,
    ORDERS,
    TRADES,
    column,
    counts,
    ingest_row,
    new_python,
    order,
    python,
    unit_of,
    write_file,
)


def log_of(lake, name):
    """The actions of a table's log, in order."""
    return [
        json.loads(line)
        for entry in lake.table_location(name).join("_delta_log").entries()
        if entry.name.endswith(".json")
        for line in entry.location.read_bytes().splitlines()
    ]


def test_a_table_keeps_its_columns_comments_and_description(tmp_path):
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_table(ORDERS)
    assert lake.table_names() == ["ingests", "orders"]
    schema = lake.schema("orders")
    assert schema.names == ORDERS.schema.names
    assert schema.types == ORDERS.schema.types
    assert schema.field("price").metadata == {b"comment": b"Price."}
    leg = schema.field("legs").type.value_type.field("leg_id")
    assert leg.metadata == {b"comment": b"About leg_id."}
    assert lake.delta("orders").metadata().description == "Orders."
    assert lake.delta("orders").metadata().partition_columns == ["date"]


def test_a_folder_without_a_lake_is_an_error(tmp_path):
    lake = LakeStore(tmp_path)
    assert lake.table_names() == []
    assert lake.captures() == {}
    assert lake.roll_forward() == []
    with pytest.raises(UsageError, match="is not a lake: create one with `pregao ingest"):
        lake.require()
    with pytest.raises(UsageError, match="has no table orders; it has no tables"):
        lake.delta("orders")


def test_a_later_schema_adds_columns_and_old_rows_read_null(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(tmp_path, "u1", ["c1"]))
    legs = pa.struct([column("leg_id", pa.int64()), column("ratio", pa.int32())])
    fields = {field.name: field for field in ORDERS.schema}
    fields["legs"] = column("legs", pa.list_(pa.field("element", legs)))
    fields["trader"] = column("trader", pa.string(), "Who.")
    later = TableSpec("orders", pa.schema(list(fields.values())))
    lake.ensure_table(later)
    row = order(8, 9, legs=[{"leg_id": 1, "ratio": 2}], trader="X")
    file = write_file(tmp_path, later, [row])
    lake.commit(CommitUnit("u2", ("c2",), (file,), (ingest_row("c2"),)))
    rows = lake.delta("orders").to_pyarrow_table().sort_by("sequence_number").to_pylist()
    assert [row["trader"] for row in rows] == [None, None, "X"]
    assert rows[2]["legs"] == [{"leg_id": 1, "ratio": 2}]
    assert lake.schema("orders").field("trader").metadata == {b"comment": b"Who."}
    # The earlier description lacks nothing that it needs: nothing changes back.
    LakeStore(tmp_path).ensure_table(ORDERS)
    assert "trader" in lake.schema("orders").names


def test_a_column_does_not_change_its_type(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_table(TRADES)
    other = TableSpec("trades", pa.schema([column("security_id", pa.string())]))
    with pytest.raises(UsageError, match="security_id is int64 and cannot become string"):
        lake.ensure_table(other)


def test_files_of_a_date_are_found(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(tmp_path, "u1", ["c1"], day="2026-05-21"))
    lake.commit(unit_of(tmp_path, "u2", ["c2"], day="2026-05-22"))
    assert len(lake.file_uris("orders")) == 2
    (uri,) = lake.file_uris("orders", "2026-05-22")
    assert "/orders/date=2026-05-22/" in uri
    assert lake.file_uris("orders", "2026-05-23") == []


def test_exact_values_come_back_and_statistics_leave_files_out(tmp_path):
    """The largest mantissa of 18 digits has more digits than a float can tell apart."""
    lake = LakeStore(tmp_path)
    lake.ensure_table(ORDERS)
    top, below = "99999999999999.9999", "99999999999999.9998"
    files = tuple(
        write_file(tmp_path, ORDERS, [order(number, number, price)])
        for number, price in [(1, top), (2, below), (3, "-" + top), (4, None)]
    )
    lake.commit(CommitUnit("u", ("c",), files, (ingest_row("c"),)))
    dataset = lake.delta("orders").to_pyarrow_dataset()
    wanted = pc.field("price") == pa.scalar(Decimal(top), pa.decimal128(18, 4))
    assert dataset.to_table(filter=wanted)["security_id"].to_pylist() == [1]
    opened = {fragment.path for fragment in dataset.get_fragments(filter=wanted)}
    assert files[0].path in opened
    assert files[1].path not in opened
    frame = pl.scan_delta(str(tmp_path / "orders"))
    found = frame.filter(pl.col("price") == pl.lit(Decimal(top), pl.Decimal(18, 4))).collect()
    assert found["security_id"].to_list() == [1]
    assert frame.filter(pl.col("price").is_null()).collect()["security_id"].to_list() == [4]


CREATE = """
LakeStore(sys.argv[1]).ensure_tables([ORDERS, TRADES])
"""


def test_processes_that_create_the_same_tables_concurrently_all_succeed(tmp_path):
    """Each table is described once: one description more would undo a change in between."""
    processes = [python(CREATE, tmp_path, wait=False) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    lake = LakeStore(tmp_path)
    assert counts(lake) == {"ingests": 0, "orders": 0, "trades": 0}
    for name in lake.table_names():
        assert sum("metaData" in action for action in log_of(lake, name)) == 1


DIE_BEFORE_CREATING = """
import pregao.lake.storage.delta as tables
tables.create_real = tables.create
tables.create = lambda location, spec: os._exit(3) if spec.name == "trades" else (
    tables.create_real(location, spec))
LakeStore(sys.argv[1]).ensure_tables([ORDERS, TRADES])
"""


def test_a_dead_creator_is_not_waited_for_forever(tmp_path, monkeypatch):
    assert python(DIE_BEFORE_CREATING, tmp_path) == 3
    lake = LakeStore(tmp_path)
    assert "trades" not in lake.table_names()
    monkeypatch.setattr("pregao.lake.storage.delta.LEASE_MS", 1)
    lake.ensure_tables([ORDERS, TRADES])
    assert lake.table_names() == ["ingests", "orders", "trades"]


def test_a_creator_that_is_known_to_have_ended_is_not_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("pregao.lake.storage.delta.LEASE_MS", 10**12)
    assert python(DIE_BEFORE_CREATING, tmp_path) == 3
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    assert lake.table_names() == ["ingests", "orders", "trades"]
    assert caplog.messages == []


def test_an_unknown_creator_is_waited_for_with_a_message(tmp_path, monkeypatch, caplog):
    unknown = iter([False] * 5)  # then it shows that the process has ended
    monkeypatch.setattr("pregao.lake.storage.delta.has_exited", lambda name: next(unknown, True))
    monkeypatch.setattr("pregao.lake.storage.delta.LEASE_MS", 600_000)
    monkeypatch.setattr("pregao.lake.storage.delta._SILENT_WAITS", 1)
    assert python(DIE_BEFORE_CREATING, tmp_path) == 3
    LakeStore(tmp_path).ensure_tables([ORDERS, TRADES])
    (message,) = caplog.messages
    assert re.match(r"waiting for process \d+ on .+, which is creating the tables", message)


def test_a_process_is_known_by_more_than_its_number():
    own = own_name()
    table, number, began = own.split(" ")
    assert not has_exited(own)
    assert not has_exited(f"elsewhere {number} {began}")
    assert has_exited(f"{table} {number} {int(began) + 1}")
    assert has_exited(f"{table} {2**22 + 1} {began}")
    assert not has_exited("what is this")
    assert number in shown_name(own)


ADD = """
new = pa.schema([*ORDERS.schema, *(column(name, pa.int64()) for name in sys.argv[2:])])
LakeStore(sys.argv[1]).ensure_table(TableSpec("orders", new))
"""


def test_processes_that_add_columns_concurrently_all_succeed(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    names = [["x", "a"], ["x", "b"], ["b", "c"]]
    processes = [python(ADD, tmp_path, *new, wait=False) for new in names]
    committed = lake.commit(unit_of(tmp_path, "u", ["c"]))
    assert [process.wait() for process in processes] == [0] * 3
    assert committed.committed
    added = lake.schema("orders").names[len(ORDERS.schema) :]
    assert sorted(added) == ["a", "b", "c", "x"]
    assert counts(lake)["orders"] == 2
    assert DAY in lake.file_uris("orders")[0]


READ = """
lake = LakeStore(sys.argv[1])
assert counts(lake)["orders"] == 2
"""


def test_a_process_that_ends_right_after_reading_ends_well(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(tmp_path, "u", ["c"]))
    assert [new_python(READ, tmp_path) for _ in range(3)] == [0, 0, 0]
