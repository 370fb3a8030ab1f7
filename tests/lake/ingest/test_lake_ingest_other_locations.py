"""The ingest on a real cluster, and from and to a real S3 store, both on loopback."""

from pathlib import Path

import pyarrow.fs
import pytest

from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.days import SMALL, assert_same, day

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    lake = tmp_path_factory.mktemp("clean")
    ingest([str(day(**SMALL))], str(lake))
    return lake


def test_from_and_to_an_s3_store(clean, tmp_path, s3_endpoint):
    bucket = Location.parse("s3://bucket/captures")
    for capture in Path(day(**SMALL)).glob("*.pcap"):
        bucket.join(capture.name).write_bytes(capture.read_bytes())
    report = ingest(
        ["s3://bucket/captures/*.pcap"], "s3://bucket/lake", IngestOptions(target_bytes=100_000)
    )
    assert report.committed
    assert report.tasks > 2
    assert not ingest(["s3://bucket/captures"], "s3://bucket/lake").captures
    assert not check_lake(LakeStore("s3://bucket/lake")).faults
    location = Location.parse("s3://bucket/lake")
    local = pyarrow.fs.LocalFileSystem()
    pyarrow.fs.copy_files(
        location.path,
        str(tmp_path),
        source_filesystem=location.filesystem,
        destination_filesystem=local,
    )
    assert_same(clean, tmp_path)
