"""The data source in Spark: typed columns, what options choose, mistakes as sentences."""

import pytest

from pregao.lake.datasource.data_source import B3Reader, register
from pregao.lake.datasource.options import parse_request
from pregao.lake.execution.spark_session import sentence
from tests.lake.datasource.test_lake_datasource_rows import plain
from tests.lake.days import day


@pytest.fixture(scope="module")
def b3(spark):
    register(spark)
    return lambda path=None, **options: (
        spark.read.format("b3").options(**options).load(str(path or day(duration="20s")))
    )


def collected(frame):
    return sorted(map(repr, (row.asDict(recursive=True) for row in frame.collect())))


def expected(template, names, holds=lambda row: True):
    rows = plain(template).to_pylist()
    return sorted(repr({name: row[name] for name in names}) for row in rows if holds(row))


@pytest.mark.parametrize("template", ["Order_MBO_50", "12", "30", "packets"])
def test_rows_arrive_in_spark_unchanged(b3, template):
    frame = b3(template=template)
    assert collected(frame) == expected(template, frame.columns)
    assert frame.count() == plain(template).num_rows > 0


def test_types_and_comments(b3):
    schema = b3(template="50").schema
    assert schema["md_entry_px"].dataType.simpleString() == "decimal(18,4)"
    assert schema["md_entry_type"].dataType.simpleString() == "string"
    assert schema["security_id"].dataType.simpleString() == "bigint"
    assert schema["channel"].metadata["comment"].startswith("Channel")
    generic = b3()
    assert generic.columns[-4:] == ["version", "body", "bytes", "error"]


def test_sql_functions_reach_into_the_bodies_of_all_messages(b3):
    found = (
        b3()
        .where("template = 'Order_MBO_50'")
        .selectExpr("cast(get_json_object(body, '$.md_entry_px') as decimal(18,4)) as px")
    )
    prices = [row["md_entry_px"] for row in plain("50").to_pylist()]
    assert sorted(str(row.px) for row in found.collect()) == sorted(map(str, prices))


def test_options_and_conditions_choose_together(b3):
    first = plain("50").to_pylist()[100]
    chosen = b3(
        template="50",
        securityId=f"{first['security_id']},5",
        channel=str(first["channel"]),
        stream="incremental",
        since=str(first["capture_time_ns"]),
        until="2100-01-01",
    )
    frame = chosen.where("sequence_number < 100000 and md_entry_size > 100")
    assert collected(frame) == expected(
        "50",
        frame.columns,
        lambda row: (
            row["security_id"] == first["security_id"]
            and row["channel"] == first["channel"]
            and row["capture_time_ns"] >= first["capture_time_ns"]
            and row["stream"] == "incremental"
            and row["sequence_number"] < 100000
            and row["md_entry_size"] > 100
        ),
    )
    assert chosen.count() > frame.count() > 0


def test_a_schema_chooses_columns(b3, spark):
    schema = "md_entry_px decimal(18,4), position bigint"
    frame = (
        spark.read.format("b3")
        .schema(schema)
        .option("template", "50")
        .load(str(day(duration="20s")))
    )
    assert frame.columns == ["md_entry_px", "position"]
    assert collected(frame) == expected("50", frame.columns)


def test_a_schema_of_other_types_is_refused(b3, spark):
    reader = spark.read.format("b3").schema("md_entry_px double").option("template", "50")
    with pytest.raises(Exception, match="md_entry_px") as caught:
        reader.load(str(day(duration="20s"))).collect()
    assert sentence(caught.value) == (
        "The column md_entry_px is decimal(18,4), not double; cast it in the query."
    )


def test_patterns_and_lists_of_paths(b3, spark):
    folder = day(duration="20s")
    pattern = b3(folder / "*_Incremental_[AB].pcap", template="50")
    files = sorted(map(str, folder.glob("*_Incremental_*.pcap")))
    several = spark.read.format("b3").option("template", "50").load(files)
    assert pattern.count() == several.count() == plain("50").num_rows


def test_errors_come_as_one_line(b3, tmp_path):
    with pytest.raises(Exception, match="template") as caught:
        b3(template="Order_MBA_50")
    assert "Did you mean Order_MBO_50?" in sentence(caught.value)
    other = tmp_path / "letter.pcap"
    other.write_bytes(b"Dear reader, this is no capture at all.")
    with pytest.raises(Exception, match="letter") as caught:
        b3(other, template="50").count()
    assert "not a capture" in sentence(caught.value)
    assert str(other) in sentence(caught.value)


def test_ranges_are_planned_for_tasks():
    request = parse_request(
        {"path": str(day(duration="20s")), "template": "50", "rangeSize": "20k"}
    )
    partitions = B3Reader(request).partitions()
    files = {partition.part.location.name for partition in partitions}
    assert len(partitions) > 2 * len(files) > 4
