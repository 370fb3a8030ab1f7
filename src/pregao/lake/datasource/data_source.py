"""Spark data source ``b3``: captures as rows, for ad-hoc queries and streams.

``spark.read.format("b3").option("template", "Order_MBO_50").load("captures/")`` returns the
messages of a template with typed columns; without a template every message is a row with its fields
as JSON, and ``packets`` returns a row for each UDP packet.

The rows are as captured: nothing is arbitrated. A packet that both feeds delivered appears twice,
distinguished by ``destination``; snapshot loops repeat. Use ``pregao ingest`` for tables with every
message once. Messages that cannot be decoded are not among the rows of a template; among those of
all messages they have an ``error``.

Options select what is decoded (``channel``, ``stream``, ``securityId``, ``since``, ``until``);
Spark applies the conditions of a query to the resulting rows.

Spark passes no column selection to a source, so all columns of a shape are built unless some are
requested by name: ``option("columns", "security_id,md_entry_px")`` or ``schema(…)`` makes reads
faster.
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
from pregao.lake.datasource.options import RANGES, ReadRequest, parse_request
from pregao.lake.datasource.range_reader import (
    CaptureRange,
    RangeReader,
    planned_streams,
    ranges_of,
)
from pregao.lake.datasource.row_shapes import RowShape, check_selection, shape_of
from pregao.lake.datasource.stream_reader import B3StreamReader
from pregao.lake.execution.spark_session import missing_interpreter
from pregao.lake.execution.worker import freeze_gc, keep_freed_memory


def register(spark: Any) -> None:
    """Register the source ``b3`` in a Spark session, classic or Spark Connect."""
    if (python := missing_interpreter(spark)) is not None:
        raise UsageError(
            f"Spark plans reads of captures with the workers' Python, {python}, on the driver "
            f"too, but {Path.cwd()} has none. Start from the folder into which `pregao pack` "
            "wrote it, or use a Python whose path is the same on all machines."
        )
    spark.dataSource.register(B3DataSource)


class RangePartition(InputPartition):
    """Partition: the range of a capture that one task reads."""

    def __init__(self, part: CaptureRange, streams: dict[str, str]) -> None:
        self.part = part
        self.streams = streams


class B3DataSource(DataSource):
    """Captures of B3's market data as rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "b3"

    def schema(self) -> StructType:
        """Return the columns of the requested shape."""
        request = parse_request(self.options)
        check_selection(request)
        return spark_schema(shape_of(request))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the files' current content."""
        request = with_columns(parse_request(self.options), schema)
        if request.shape.lower() == RANGES:
            raise UsageError(
                "The template ranges is for streams; read messages or packets instead."
            )
        return B3Reader(request)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of files that grow and roll."""
        return B3StreamReader(with_columns(parse_request(self.options), schema))


class B3Reader(DataSourceReader):
    """Reads captures: plans ranges, yields Arrow batches."""

    def __init__(self, request: ReadRequest) -> None:
        check_selection(request)
        self.request = request

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges of the captures, one for each task."""
        ranges = ranges_of(self.request)
        streams = planned_streams(self.request, [part.location for part in ranges])
        return [RangePartition(part, streams) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a range."""
        assert isinstance(partition, RangePartition)
        keep_freed_memory()
        yield from RangeReader(self.request, partition.streams).read(partition.part)
        freeze_gc()


def with_columns(request: ReadRequest, schema: StructType) -> ReadRequest:
    """Return the request for the columns of a schema, given by Spark or the user."""
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


def spark_schema(shape: RowShape) -> StructType:
    """Return a shape's columns in Spark's types, with their comments."""
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
