"""`pregao lake check` finds what does not add up."""

from datetime import date

from deltalake import DeltaTable

from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import day_number
from tests.lake.days import day

DAY = date(2026, 5, 21)


def test_packets_that_were_decoded_twice_are_found(tmp_path):
    """A filter on the stream, for which files have no statistics, must find its rows."""
    capture = day(instruments=2, duration="5s", rate=40.0) / "051_Incremental_A.pcap"
    lake = LakeStore(tmp_path)
    ingest([str(capture)], lake.location)
    assert check_lake(lake).faults == []
    rows = DeltaTable(str(tmp_path / "packets")).to_pyarrow_table().drop_columns(["date"])
    numbered = rows.filter(rows["sequence_number"].is_valid())
    again = write_rows(lake.location, "packets", numbered.slice(0, 3), day_number(DAY))
    lake.commit(CommitUnit("twice", ("nobody",), lake.new_files([again])))
    faults = check_lake(lake).faults
    assert "packets: on 2026-05-21, 3 sequence numbers were decoded more than once" in faults
    assert any("packets decoded" in fault for fault in faults)
