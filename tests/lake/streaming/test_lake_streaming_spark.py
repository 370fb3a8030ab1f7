"""The data source as a stream: bounded batches, restart from a checkpoint, files that grow."""

import pytest

from pregao.lake.datasource.data_source import register
from pregao.lake.execution.spark_session import sentence
from tests.lake.datasource.test_lake_datasource_rows import plain
from tests.lake.days import day


@pytest.fixture
def stream(spark, tmp_path):
    """Run a stream over what is there now; gives its rows so far, and the batches of this run."""
    register(spark)

    def run(folder, **options):
        reader = spark.readStream.format("b3").options(template="50", **options)
        query = (
            reader.load(str(folder))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        query.awaitTermination()
        batches = [progress["numInputRows"] for progress in query.recentProgress]
        rows = spark.read.parquet(str(tmp_path / "rows")).collect()
        return sorted(repr(row.asDict()) for row in rows), [n for n in batches if n]

    return run


def expected(stream_columns=None):
    names = [name for name in plain("50").column_names if name not in ("capture", "position")]
    return sorted(repr({name: row[name] for name in names}) for row in plain("50").to_pylist())


def test_bounded_batches_restart_and_growth(stream, tmp_path):
    """Half of every file, cut inside a packet; then the rest, from the checkpoint on."""
    folder = tmp_path / "rolling"
    folder.mkdir()
    contents = {path.name: path.read_bytes() for path in day(duration="20s").glob("*.pcap")}
    for name, content in contents.items():
        (folder / name).write_bytes(content[: len(content) // 2 + 5])
    half, batches = stream(folder, maxBytesPerBatch="200k")
    assert len(batches) > 2
    assert 0 < len(half) < len(expected())
    assert set(half) < set(expected())
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    everything, batches = stream(folder, maxFilesPerBatch="1")
    assert len(batches) >= 2
    assert everything == expected()
    again, batches = stream(folder)
    assert not batches
    assert again == everything


def test_a_capture_that_became_shorter_stops_the_stream(stream, tmp_path):
    folder = tmp_path / "rolling"
    folder.mkdir()
    name = next(day(duration="20s").glob("*_Incremental_A.pcap"))
    (folder / "a.pcap").write_bytes(name.read_bytes())
    stream(folder)
    (folder / "a.pcap").write_bytes(name.read_bytes()[:5000])
    with pytest.raises(Exception, match="truncated") as caught:
        stream(folder)
    assert "was truncated" in sentence(caught.value)
    assert str(folder / "a.pcap") in sentence(caught.value)
