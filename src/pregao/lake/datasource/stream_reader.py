"""Data source ``b3`` as a stream: batches of the growth of rolling capture files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from pregao.capture.split import boundary_finder
from pregao.errors import UsageError
from pregao.lake.datasource.options import RANGES, ReadRequest
from pregao.lake.datasource.range_reader import CaptureRange, RangeReader, planned_streams
from pregao.lake.datasource.rolling_files import (
    FileOffset,
    FileRange,
    Offset,
    RollingFiles,
    next_offset,
    ranges_between,
)
from pregao.lake.datasource.row_shapes import check_selection, shape_of
from pregao.lake.ingest.growing_file import GrowingFile


class BatchPartition(InputPartition):
    """Input of one task of a batch: a range of a file, or the list of all ranges."""

    def __init__(
        self, part: CaptureRange | None, streams: dict[str, str], ranges: tuple[FileRange, ...] = ()
    ) -> None:
        self.part = part
        self.streams = streams
        self.ranges = ranges


class B3StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the growth of the captures of a folder.

    An offset records how far each file was read. Files are identified by name and head; bytes that
    were read must not change.
    """

    def __init__(self, request: ReadRequest) -> None:
        if len(request.captures) != 1:
            raise UsageError("A stream reads one folder or pattern; start one stream for each.")
        check_selection(request)
        self.request = request
        self._files: RollingFiles | None = None
        self._target: list[GrowingFile] | None = None

    @property
    def files(self) -> RollingFiles:
        """Files of the folder."""
        if self._files is None:
            self._files = RollingFiles(self.request.captures[0], self.request.quiet_ns)
        return self._files

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which nothing was read."""
        return as_json({})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limits that the options set on a batch."""
        if self.request.max_bytes is not None:
            return ReadMaxBytes(self.request.max_bytes)
        if self.request.max_files is not None:
            return ReadMaxFiles(self.request.max_files)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """Return the end of the next batch."""
        bounded = not isinstance(limit, ReadAllAvailable)
        until = None
        if self._target is None:
            available = self.files.look()
            until = self.files.until(available, self.request.holdback_ns)
        else:
            available = self._target
        end = next_offset(
            from_json(start),
            available,
            max_bytes=self.request.max_bytes if bounded else None,
            max_files=self.request.max_files if bounded else None,
            until_ns=until,
        )
        return as_json(end)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read the data available now, and nothing later."""
        self._target = self.files.look()

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        """Return the ranges between two offsets, with long ones split."""
        ranges = ranges_between(self.files, from_json(start), from_json(end))
        if not ranges:
            return []
        if self.request.shape.lower() == RANGES:
            return [BatchPartition(None, {}, tuple(ranges))]
        streams = planned_streams(self.request, [each.location for each in ranges])
        return [BatchPartition(part, streams) for each in ranges for part in self._cut(each)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition."""
        assert isinstance(partition, BatchPartition)
        if partition.part is None:
            return iter([range_rows(partition.ranges, self.request)])
        return RangeReader(self.request, partition.streams).read(partition.part)

    def _cut(self, each: FileRange) -> list[CaptureRange]:
        if each.whole:
            return [CaptureRange(each.location)]
        points = [each.begin]
        if each.end - each.begin > self.request.range_bytes:
            with boundary_finder(each.location.source) as finder:
                assert finder is not None
                while each.end - points[-1] > self.request.range_bytes:
                    points.append(
                        finder.first_boundary(points[-1] + self.request.range_bytes, points[-1])
                    )
        points = [point for point in points if point < each.end]
        ends = [*points[1:], each.end]
        return [
            CaptureRange(each.location, begin, end) for begin, end in zip(points, ends, strict=True)
        ]


def range_rows(ranges: Sequence[FileRange], request: ReadRequest) -> Any:
    """Return ranges as rows, for the ingest."""
    rows = [
        {
            "uri": each.location.uri,
            "name": each.name,
            "head": each.head,
            "begin": each.begin,
            "end": each.end,
            "whole": each.whole,
        }
        for each in ranges
    ]
    schema = shape_of(request).schema.remove_metadata()
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def as_json(offset: Offset) -> dict[str, Any]:
    """Return an offset as Spark's JSON."""
    return {
        "files": {
            name: {"head": mark.head, "end": mark.end, "whole": mark.whole}
            for name, mark in sorted(offset.items())
        }
    }


def from_json(data: Mapping[str, Any]) -> Offset:
    """Parse an offset from Spark's JSON."""
    return {
        name: FileOffset(mark["head"], mark["end"], mark["whole"])
        for name, mark in data["files"].items()
    }
