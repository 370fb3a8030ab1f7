"""The Spark data source ``b3``: captures as rows, for ad-hoc queries and streams.

``spark.read.format("b3").option("template", "Order_MBO_50").load("captures/")`` gives the messages
of a template with typed columns; without a template every message is a row with its fields as
JSON, and ``packets`` gives a row for each UDP packet.

The rows are what was captured: nothing is arbitrated. A packet that both feeds brought stands
twice, told apart by ``destination``; snapshot loops repeat. Use ``pregao ingest`` for tables in
which every message stands once. Messages that cannot be decoded are not among the rows of a
template; among those of all messages they have an ``error``.

Options choose what is decoded (``channel``, ``stream``, ``securityId``, ``from``, ``to``); the
conditions of a query are Spark's, applied to the rows that come.

Spark hands over no selection of columns, so all of a shape are made unless some are asked for by
name: ``option("columns", "security_id,md_entry_px")`` or ``schema(…)`` makes reads faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pregao.errors import UsageError
from pregao.lake.source.plan import planned_streams, ranges_of
from pregao.lake.source.request import RANGES, ReadRequest, parse_request
from pregao.lake.source.rows import CaptureRange, RangeReader
from pregao.lake.source.selection import check_selection
from pregao.lake.source.shapes import Shape, shape_of
from pregao.lake.source.stream_reader import B3StreamReader
from pregao.lake.spark import missing_interpreter, spare_the_collector, take_memory


def register(spark: Any) -> None:
    """Make the source ``b3`` known to a Spark session, classic or Spark Connect."""
    if (python := missing_interpreter(spark)) is not None:
        raise UsageError(
            f"Spark plans reads of captures with the workers' Python, {python}, on this machine "
            f"too, and there is none in {Path.cwd()}. Start from the folder in which `pregao pack` "
            "has put it, or name a Python by a path that is the same everywhere."
        )
    spark.dataSource.register(B3DataSource)


class RangePartition(InputPartition):
    """A partition: the range of a capture that one task reads."""

    def __init__(self, part: CaptureRange, streams: dict[str, str]) -> None:
        self.part = part
        self.streams = streams


class B3DataSource(DataSource):
    """Captures of B3's market data as rows."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "b3"

    def schema(self) -> StructType:
        """The columns of the shape that was asked for."""
        request = parse_request(self.options)
        check_selection(request)
        return spark_schema(shape_of(request))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of files as they are now."""
        request = with_columns(parse_request(self.options), schema)
        if request.shape.lower() == RANGES:
            raise UsageError("Ranges of files are for streams; read messages or packets instead.")
        return B3Reader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of files that grow and roll."""
        return B3StreamReader(with_columns(parse_request(self.options), schema))


class B3Reader(DataSourceReader):
    """Reads captures: plans ranges, gives Arrow batches."""

    def __init__(self, request: ReadRequest) -> None:
        check_selection(request)
        self.request = request

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of the captures, each for a task."""
        ranges = ranges_of(self.request)
        streams = planned_streams(self.request, [part.location for part in ranges])
        return [RangePartition(part, streams) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a range."""
        assert isinstance(partition, RangePartition)
        take_memory()
        yield from RangeReader(self.request, partition.streams).read(partition.part)
        spare_the_collector()


def with_columns(request: ReadRequest, schema: StructType) -> ReadRequest:
    """The request for the columns of a schema, which Spark or the user gives."""
    request = replace(request, columns=tuple(schema.names))
    declared = shape_of(request).schema
    wanted = to_arrow_schema(schema, timezone="UTC")
    for field in declared:
        if wanted.field(field.name).type != field.type:
            raise UsageError(
                f"The column {field.name} is {from_arrow_type(field.type).simpleString()}, not "
                f"{schema[field.name].dataType.simpleString()}; cast it in the query."
            )
    return request


def spark_schema(shape: Shape) -> StructType:
    """A shape's columns in Spark's types, with what they mean as comments."""
    return StructType(
        [
            StructField(
                field.name,
                from_arrow_type(field.type),
                True,
                {"comment": field.metadata[b"comment"].decode()},
            )
            for field in shape.schema
        ]
    )
