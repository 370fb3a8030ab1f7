"""Check a lake: recount its tables against the ingest reports, and its files against the logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pregao.errors import UsageError
from pregao.lake.ingest.accounting import PACKET_OUTCOMES
from pregao.lake.ingest.protocol import IngestProtocol
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.keys import PACKET_KEY


@dataclass(slots=True)
class CheckResult:
    """Counts of what was compared, and the mismatches."""

    units: int = 0
    packets: int = 0
    messages: int = 0
    faults: list[str] = field(default_factory=list)


def check_lake(lake: LakeStore) -> CheckResult:
    """Recount the rows of every ingest and describe each mismatch."""
    result = CheckResult()
    ingests = lake.delta("ingests").to_pyarrow_table().to_pylist()
    unit_of = {row["capture_id"]: row["unit_id"] for row in ingests}
    reports = {row["unit_id"]: json.loads(row["report"]) for row in ingests if row["report"]}
    result.units = sum("dropped" not in report for report in reports.values())
    existing = set(lake.table_names())
    for protocol in PROTOCOLS.values():
        if protocol.account_table("packets") not in existing:
            continue  # nothing of this protocol was ever ingested
        by_unit = {unit: _describe(report, protocol.name) for unit, report in reports.items()}
        _check_protocol(lake, protocol, by_unit, unit_of, result)
        result.faults += list(_twice(lake, protocol))
    return result


def _describe(report: Mapping[str, Any], protocol: str) -> Mapping[str, Any] | None:
    """Return an ingest's report of a protocol; early reports are of the first protocol alone."""
    accounts = report.get("protocols", {first_protocol().name: report})
    account: Mapping[str, Any] | None = accounts.get(protocol)
    return account


def _check_protocol(
    lake: LakeStore,
    protocol: IngestProtocol,
    reports: Mapping[str, Mapping[str, Any] | None],
    unit_of: dict[str, str],
    result: CheckResult,
) -> None:
    packets = _counts(lake, protocol.account_table("packets"), unit_of, "outcome", result)
    messages: dict[str, Counter[str]] = {}
    templates = {
        name
        for reported in reports.values()
        if reported
        for name in reported["messages"]["by_template"]
    }
    for template in sorted(templates):
        counted = _counts(lake, protocol.table_of(template), unit_of, None, result)
        for unit, tally in counted.items():
            messages.setdefault(unit, Counter())[template] += tally.total()
    for unit, reported in reports.items():
        found = packets.get(unit, Counter())
        result.packets += found.total()
        for outcome in PACKET_OUTCOMES:
            expected = reported["packets"][outcome] if reported else 0
            _compare(result, unit, f"packets {outcome}", expected, found[outcome])
        own = messages.get(unit, Counter())
        result.messages += own.total()
        for template, count in reported["messages"]["by_template"].items() if reported else ():
            _compare(result, unit, f"messages {template}", count, own[template])


def _compare(result: CheckResult, unit: str, what: str, reported: int, found: int) -> None:
    if reported != found:
        result.faults.append(
            f"ingest {unit}: {what}: {reported:,} reported, {found:,} in the table"
        )


def _counts(
    lake: LakeStore, table: str, unit_of: dict[str, str], by: str | None, result: CheckResult
) -> dict[str, Counter[str]]:
    """Count the rows of a table by ingest and optionally by another column."""
    columns = ["capture_id"] if by is None else ["capture_id", by]
    counted: dict[str, Counter[str]] = {}
    unknown = 0
    for batch in lake.delta(table).to_pyarrow_dataset().to_batches(columns=columns):
        tally = pa.Table.from_batches([batch]).group_by(columns).aggregate([([], "count_all")])
        for row in tally.to_pylist():
            unit = unit_of.get(row["capture_id"])
            if unit is None:
                unknown += row["count_all"]
            else:
                label = "" if by is None else row[by]
                counted.setdefault(unit, Counter())[label] += row["count_all"]
    if unknown:
        result.faults.append(f"{table}: {unknown:,} rows of captures that are in no ingest")
    return counted


def _twice(lake: LakeStore, protocol: IngestProtocol) -> Iterator[str]:
    """Report sequence numbers that were decoded more than once, by day."""
    if not protocol.arbitrated:
        return  # its payloads are never duplicates
    table = protocol.account_table("packets")
    dataset = lake.delta(table).to_pyarrow_dataset()
    days = sorted({p[DATE] for p in _partitions(lake, table)})
    for day in days:
        condition = (
            (pc.field(DATE) == day)
            & pc.field("stream").isin(sorted(protocol.arbitrated))
            & (pc.field("outcome") == "decoded")
            & pc.field("sequence_number").is_valid()
        )
        columns = ["channel", *PACKET_KEY, "sending_time_ns"]
        keys = dataset.to_table(columns=columns, filter=condition)
        channel, version, number, sending = (
            keys.column(name).fill_null(0).to_numpy().astype(np.int64) for name in columns
        )
        if protocol.timed_versions:  # numbers may restart within a version, even in a second
            order = np.lexsort((number, sending, channel))
            steps = [np.diff(part[order]) for part in (number, sending, channel)]
            extra = int(np.logical_and.reduce([step == 0 for step in steps]).sum())
        else:
            packed_keys = channel << 52 | version << 32 | number
            extra = len(packed_keys) - len(np.unique(packed_keys))
        if extra:
            yield f"{table}: on {day}, {extra:,} sequence numbers were decoded more than once"


def _partitions(lake: LakeStore, table: str) -> list[dict[str, Any]]:
    actions = visible_files(lake.delta(table))
    return [{DATE: value} for value in actions.column(f"partition.{DATE}").to_pylist()]


def unsound(lake: LakeStore, *, deep: bool = False) -> list[str]:
    """Describe incomplete units, and files that are missing or differ from the table's log.

    Only the files' footers are read; with ``deep``, every page of every column is read, and its
    checksum verified if it has one.
    """
    faults = [f"the unit {unit} is not complete" for unit in lake.pending()]
    with ThreadPoolExecutor(8) as pool:
        for name in lake.table_names():
            table_location = lake.table_location(name)
            actions = visible_files(lake.delta(name)).to_pylist()

            def look(action: dict[str, Any], location: Location = table_location) -> list[str]:
                return list(_file_faults(location, action, deep=deep))

            for found in pool.map(look, actions):
                faults += found
    return faults


def _file_faults(location: Location, action: dict[str, Any], *, deep: bool) -> Iterator[str]:
    file = location.join(action["path"])
    entry = file.info()
    if entry is None:
        yield f"{file} is missing"
        return
    if entry.size != action["size_bytes"]:
        yield f"{file} has {entry.size:,} bytes instead of {action['size_bytes']:,}"
        return
    try:
        with file.open_input() as opened:
            metadata = pq.read_metadata(opened)
            rows = metadata.num_rows
            if deep:
                yield from _damaged_columns(file, opened)
    except (UsageError, OSError, pa.ArrowException) as error:
        yield f"{file} cannot be read: {' '.join(str(error).split())[:200]}"
        return
    if rows != action["num_records"]:
        yield f"{file} has {rows:,} rows instead of {action['num_records']:,}"


def _damaged_columns(file: Location, opened: Any) -> Iterator[str]:
    """Describe the columns that cannot be read."""
    parquet = pq.ParquetFile(opened, page_checksum_verification=True)
    names = parquet.schema_arrow.names
    for group in range(parquet.num_row_groups):
        try:
            parquet.read_row_group(group)
        except (OSError, pa.ArrowException):
            for name in names:
                try:
                    parquet.read_row_group(group, columns=[name])
                except (OSError, pa.ArrowException) as error:
                    reason = " ".join(str(error).split())[:200]
                    yield f"{file}: the column {name} is damaged: {reason}"
