"""Streaming ingest: the growth of capture files goes into the lake's tables, exactly once.

The lake itself records how far each file was ingested: a range is committed as a unit that no other
unit can repeat, and a committed range is never ingested again, whatever a stream requests. So a
process killed at any time, a lost checkpoint and two streams over the same files neither lose nor
duplicate rows.

One second of the files before and after a range is read as context: it shows the other feed's
copies of packets near its ends, and where an event began.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pregao.errors import CaptureError
from pregao.extras import require
from pregao.lake.datasource.rolling_files import FileRange, RollingFiles
from pregao.lake.execution.runner import Runner, SerialRunner, TaskProgress
from pregao.lake.ingest.fingerprint import fingerprint
from pregao.lake.ingest.growing_file import GrowingFile
from pregao.lake.ingest.history import IngestState, load_ingest_state, range_identity
from pregao.lake.ingest.merging import settle_latest
from pregao.lake.ingest.options import IngestOptions, check_options
from pregao.lake.ingest.pcap_index import PcapSeeker
from pregao.lake.ingest.pipeline import ingest, ingest_surveyed
from pregao.lake.ingest.protocol import UNKNOWN_STREAM
from pregao.lake.ingest.registry import first_protocol
from pregao.lake.ingest.report import IngestReport
from pregao.lake.ingest.survey import CaptureSurvey, survey, survey_range
from pregao.lake.ingest.tables import first_specs
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.transaction import until_committed


class StreamIngest:
    """Ingests ranges of growing files into a lake."""

    def __init__(
        self,
        files: RollingFiles,
        lake: str | Location,
        options: IngestOptions | None = None,
        *,
        runner: Runner | None = None,
        progress: TaskProgress | None = None,
    ) -> None:
        require("numba")
        self.files = files
        self.lake = LakeStore(lake)
        self.options = options or IngestOptions()
        check_options(self.options)
        self._runner = runner or SerialRunner()
        self._progress = progress or TaskProgress()
        self._known: IngestState | None = None

    def prepare(self) -> None:
        """Complete the commits of an interrupted run, and create missing tables."""
        if self.lake.exists():
            self._progress.step("completing an interrupted run")
            self.lake.prepare()
        self.lake.ensure_tables(first_specs())
        settle_latest(self.lake)

    def take(self, ranges: Sequence[FileRange]) -> list[IngestReport]:
        """Ingest ranges, except those already ingested. Returns a report of each unit."""
        reports = []
        wholes = [each.location for each in ranges if each.whole]
        if wholes:
            report = ingest(
                wholes,
                self.lake.location,
                self.options,
                runner=self._runner,
                progress=self._progress,
                allow_empty=True,
            )
            reports += [report] if report.captures else []
            self._known = None  # other ingests may have committed meanwhile
        growing = [each for each in ranges if not each.whole]
        if growing:
            reports += self._take_growing(growing)
        return reports

    def _take_growing(self, ranges: Sequence[FileRange]) -> list[IngestReport]:
        began = time.perf_counter()

        def attempt() -> list[IngestReport] | None:
            known = self._known = self._known or self._read_known()
            for each in ranges:
                _note_whole(each, known)
            left = [part for each in ranges for part in _left(each, known)]
            if not left:
                return []
            report = self._attempt(left, known)
            report.seconds = time.perf_counter() - began
            if report.committed:
                return [report]
            self._progress.step("another ingest committed first; planning again")
            self._known = None
            return None

        rivals = "other ingests keep committing the same files first"
        return until_committed(self.lake.location, rivals, attempt)

    def _read_known(self) -> IngestState:
        # The process that claimed a range or channel before may have died before completing it.
        self.prepare()
        return load_ingest_state(self.lake)

    def _attempt(self, ranges: list[FileRange], known: IngestState) -> IngestReport:
        names = [f"{range_identity(each.file, each.begin)}-{each.end}" for each in ranges]
        inputs = [sorted(names), sorted(known.generations.items())]
        if known.dropped:
            inputs.append(sorted(known.dropped.items()))
        text = json.dumps(inputs)
        report = IngestReport(unit_id=hashlib.sha256(text.encode()).hexdigest()[:32])
        surveys = self._surveys(ranges, known)
        streams = {r.destination: r.stream for r in known.roles.values()}
        fixed = {
            flow: stream
            for flow, stream in {**streams, **dict(self.options.streams)}.items()
            if stream != UNKNOWN_STREAM
        }
        for flow in fixed:
            # A flow may exist without appearing in a sample.
            role = known.roles.get(flow)
            surveys[0].sighting(first_protocol().name if role is None else role.protocol, flow)
        ingest_surveyed(
            self.lake,
            surveys,
            known,
            replace(self.options, streams=tuple(fixed.items())),
            report,
            runner=self._runner,
            progress=self._progress,
            continued=True,
        )
        return report

    def _surveys(self, ranges: list[FileRange], known: IngestState) -> list[CaptureSurvey]:
        """Survey the ranges, and the packets around them in all files."""
        growing = {each.file: each for each in self.files.look() if not each.whole}
        spans = [_span(each, growing.get(each.file)) for each in ranges]
        first = min(span[0] for span in spans) - self.options.skew_ns
        last = max(span[1] for span in spans) + self.options.skew_ns
        surveys = []
        for each in ranges:
            seen = growing.pop(each.file, None)
            stop = each.end if seen is None else max(each.end, seen.end)
            with PcapSeeker(each.location) as opened:
                context = opened.around(each.begin, each.end, first, last, stop)
            found = survey_range(each.location, each.begin, each.end, context)
            found.identity = range_identity(each.file, each.begin)
            found.fingerprint = each.file
            self._learn_new_flows(found, known)
            surveys.append(found)
        return surveys + list(_around(growing, known, first, last))

    @staticmethod
    def _learn_new_flows(found: CaptureSurvey, known: IngestState) -> None:
        """Survey the rest of the file for new flows, whose stream a few packets may not show."""
        new = {
            flow
            for flow in found.flows()
            if flow not in known.roles or known.roles[flow].stream == UNKNOWN_STREAM
        }
        if new:
            for protocol, by_flow in survey(found.location).evidence.items():
                for flow, seen in by_flow.items():
                    if flow in new:
                        found.sighting(protocol, flow).kinds = seen.kinds


def _span(each: FileRange, growing_file: GrowingFile | None) -> tuple[int, int]:
    """Return the times of a range's first packet and of one not before its last."""
    with PcapSeeker(each.location) as opened:
        if opened.finder.size < each.end:
            raise CaptureError(
                f"{each.location} was truncated: it had {each.end} bytes, and now has "
                f"{opened.finder.size}. Captures may only grow; write a new one under a new name."
            )
        first = opened.finder.time_at(each.begin) or 0
        last = opened.finder.time_at(each.end)
    if last is None:
        last = first if growing_file is None else growing_file.last_time_ns
    return first, max(first, last)


def _note_whole(each: FileRange, known: IngestState) -> None:
    """Record a file that was already ingested completely, detected by content."""
    if each.file in known.claimed:
        return
    entry = each.location.info()
    size = 0 if entry is None else entry.size
    mark = fingerprint(each.location, size) if size else ""
    same = known.identity_of(mark, each.location, size) is not None
    known.claimed[each.file] = [(0, size - 1)] if same else []


def _left(each: FileRange, known: IngestState) -> Iterator[FileRange]:
    """Yield the parts of a range that were not ingested yet."""
    begin = each.begin
    for first, last in known.claimed.get(each.file, []):
        if last < begin or first >= each.end:
            continue
        if first > begin:
            yield replace(each, begin=begin, end=first)
        begin = last + 1
    if begin < each.end:
        yield replace(each, begin=begin)


def _around(
    files: dict[str, GrowingFile], known: IngestState, first_ns: int, last_ns: int
) -> Iterator[CaptureSurvey]:
    """Yield the packets of other files in a span of time, ingested or not, as context only."""
    for name, file in files.items():
        if file.last_time_ns < first_ns:
            continue
        position = max((last + 1 for _, last in known.claimed.get(name, [])), default=file.begin)
        if not file.begin <= position <= file.end:
            continue
        with PcapSeeker(file.location) as opened:
            next_ns = opened.finder.time_at(position)
            stop = file.end if next_ns is not None and next_ns <= last_ns else position
            context = opened.around(position, position, first_ns, last_ns, stop)
        if context[0] < context[1]:
            yield survey_range(file.location, position, position, context)
