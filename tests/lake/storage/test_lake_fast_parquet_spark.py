"""Files of the lake's own Parquet writer, read by Spark: by its quick reader and its plain one."""

import pyarrow as pa
import pytest

from tests.lake.storage.test_lake_fast_parquet import KINDS, SHAPES, as_read, table, written

CODED = {
    "repeating": ((), ""),
    "as differences": ((*KINDS, "price"), ""),
    "as they are": (("half", "day"), "word"),
}


@pytest.mark.parametrize("reader", ["quick", "plain"])
def test_spark_finds_written_rows(spark, tmp_path, reader):
    setting = "spark.sql.parquet.enableVectorizedReader"
    spark.conf.set(setting, "true" if reader == "quick" else "false")
    nulls = [0.0, 0.1, 0.9, 0.0, 0.2, 0.5]
    parts = [table(600, [shape] * 6, nulls, at) for at, shape in enumerate(SHAPES)]
    columns = as_read(pa.concat_tables(parts)).columns
    wanted = list(zip(*(column.to_pylist() for column in columns), strict=True))
    for name, (delta, plain) in CODED.items():
        file = tmp_path / f"{name}.parquet"
        file.write_bytes(written(parts, 500, delta, plain))
        frame = spark.read.parquet(str(file))
        assert [tuple(row) for row in frame.collect()] == wanted
        # Row groups and pages are passed over by their bounds.
        some = wanted[2_000][0]
        assert len(frame.where(f"word = {some}").collect()) == [row[0] for row in wanted].count(
            some
        )
    spark.conf.unset(setting)
