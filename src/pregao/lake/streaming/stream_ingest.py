"""The streaming ingest: what capture files grow by goes into the lake's tables, exactly once.

The lake itself tells how far each file was taken: a range is committed as a unit that no other unit
can repeat, and what was committed is never taken again, whatever a stream asks for. So a process
that is killed at any moment, a lost checkpoint and two streams over the same files neither lose
nor double anything.

The files' next and last second around a range is read as context: it shows the other feed's copies
of packets near its ends, and where an event began.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pregao.errors import CaptureError
from pregao.extras import require
from pregao.lake.ingest import (
    UNKNOWN_STREAM,
    CaptureSurvey,
    GrowingFile,
    Known,
    Merger,
    OpenPcap,
    Options,
    Report,
    Runner,
    TaskProgress,
    check_options,
    fingerprint,
    first_protocol,
    first_specs,
    ingest,
    merge_here,
    range_identity,
    read_known,
    run_here,
    settle_latest,
    survey,
    survey_range,
    take_in,
)
from pregao.lake.source import Range, RollingFiles
from pregao.lake.store import Lake, Location, until_committed


class StreamIngest:
    """Takes ranges of growing files into a lake."""

    def __init__(
        self,
        files: RollingFiles,
        lake: str | Location,
        options: Options | None = None,
        *,
        run: Runner = run_here,
        merge: Merger = merge_here,
        progress: TaskProgress | None = None,
    ) -> None:
        require("numba")
        self.files = files
        self.lake = Lake(lake)
        self.options = options or Options()
        check_options(self.options)
        self._run = run
        self._merge = merge
        self._progress = progress or TaskProgress()
        self._known: Known | None = None

    def prepare(self) -> None:
        """Finish what an earlier run left, and have all tables."""
        if self.lake.exists():
            self._progress.step("finishing what an earlier run left")
            self.lake.prepare()
        self.lake.ensure_tables(first_specs())
        settle_latest(self.lake)

    def take(self, ranges: Sequence[Range]) -> list[Report]:
        """Take ranges in; those that were are left alone. Gives a report of each unit."""
        reports = []
        wholes = [each.location for each in ranges if each.whole]
        if wholes:
            report = ingest(
                wholes,
                self.lake.location,
                self.options,
                run=self._run,
                merge=self._merge,
                progress=self._progress,
                may_be_nothing=True,
            )
            reports += [report] if report.captures else []
            self._known = None  # others may have come in between
        growing = [each for each in ranges if not each.whole]
        if growing:
            reports += self._take_growing(growing)
        return reports

    def _take_growing(self, ranges: Sequence[Range]) -> list[Report]:
        began = time.perf_counter()

        def attempt() -> list[Report] | None:
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
            self._progress.step("another ingest was faster; planning anew")
            self._known = None
            return None

        rivals = "other ingests kept taking the same files"
        return until_committed(self.lake.location, rivals, attempt)

    def _read_known(self) -> Known:
        # Whoever took a range or channel before us may have died before it was complete.
        self.prepare()
        return read_known(self.lake)

    def _attempt(self, ranges: list[Range], known: Known) -> Report:
        names = [f"{range_identity(each.file, each.begin)}-{each.end}" for each in ranges]
        made_of = [sorted(names), sorted(known.generations.items())]
        if known.dropped:
            made_of.append(sorted(known.dropped.items()))
        told = json.dumps(made_of)
        report = Report(unit_id=hashlib.sha256(told.encode()).hexdigest()[:32])
        surveys = self._surveys(ranges, known)
        streams = {r.destination: r.stream for r in known.roles.values()}
        fixed = {
            flow: stream
            for flow, stream in {**streams, **dict(self.options.streams)}.items()
            if stream != UNKNOWN_STREAM
        }
        for flow in fixed:
            # A flow may be there without having been met by a sample.
            role = known.roles.get(flow)
            surveys[0].sighting(first_protocol().name if role is None else role.protocol, flow)
        take_in(
            self.lake,
            surveys,
            known,
            replace(self.options, streams=tuple(fixed.items())),
            report,
            run=self._run,
            merge=self._merge,
            progress=self._progress,
            continued=True,
        )
        return report

    def _surveys(self, ranges: list[Range], known: Known) -> list[CaptureSurvey]:
        """Look into the ranges, and into what is around them in all files."""
        looked = {each.file: each for each in self.files.look() if not each.whole}
        spans = [_span(each, looked.get(each.file)) for each in ranges]
        first = min(span[0] for span in spans) - self.options.skew_ns
        last = max(span[1] for span in spans) + self.options.skew_ns
        surveys = []
        for each in ranges:
            seen = looked.pop(each.file, None)
            stop = each.end if seen is None else max(each.end, seen.end)
            with OpenPcap(each.location) as opened:
                context = opened.around(each.begin, each.end, first, last, stop)
            found = survey_range(each.location, each.begin, each.end, context)
            found.identity = range_identity(each.file, each.begin)
            found.fingerprint = each.file
            self._learn_new_flows(found, known)
            surveys.append(found)
        return surveys + list(_around(looked, known, first, last))

    @staticmethod
    def _learn_new_flows(found: CaptureSurvey, known: Known) -> None:
        """A few packets may not show what a new flow carries: look into the rest of the file."""
        new = {
            flow
            for flow in found.flows()
            if flow not in known.roles or known.roles[flow].stream == UNKNOWN_STREAM
        }
        if new:
            for protocol, by_flow in survey(found.location).seen.items():
                for flow, seen in by_flow.items():
                    if flow in new:
                        found.sighting(protocol, flow).kinds = seen.kinds


def _span(each: Range, seen: GrowingFile | None) -> tuple[int, int]:
    """The times of a range's first packet and of one not before its last."""
    with OpenPcap(each.location) as opened:
        if opened.finder.size < each.end:
            raise CaptureError(
                f"{each.location}: it has become shorter: {each.end} bytes were seen, and it has "
                f"{opened.finder.size}. Captures may only grow; put a new one under a new name."
            )
        first = opened.finder.time_at(each.begin) or 0
        last = opened.finder.time_at(each.end)
    if last is None:
        last = first if seen is None else seen.last_time_ns
    return first, max(first, last)


def _note_whole(each: Range, known: Known) -> None:
    """Take note of a file that was taken in before as a whole, by its content."""
    if each.file in known.taken:
        return
    entry = each.location.info()
    size = 0 if entry is None else entry.size
    mark = fingerprint(each.location, size) if size else ""
    same = known.identity_of(mark, each.location, size) is not None
    known.taken[each.file] = [(0, size - 1)] if same else []


def _left(each: Range, known: Known) -> Iterator[Range]:
    """The parts of a range that were not taken in yet."""
    begin = each.begin
    for first, last in known.taken.get(each.file, []):
        if last < begin or first >= each.end:
            continue
        if first > begin:
            yield replace(each, begin=begin, end=first)
        begin = last + 1
    if begin < each.end:
        yield replace(each, begin=begin)


def _around(
    files: dict[str, GrowingFile], known: Known, first_ns: int, last_ns: int
) -> Iterator[CaptureSurvey]:
    """What other files have of a span of time, taken in before or not yet: context alone."""
    for name, file in files.items():
        if file.last_time_ns < first_ns:
            continue
        place = max((last + 1 for _, last in known.taken.get(name, [])), default=file.begin)
        if not file.begin <= place <= file.end:
            continue
        with OpenPcap(file.location) as opened:
            behind = opened.finder.time_at(place)
            stop = file.end if behind is not None and behind <= last_ns else place
            context = opened.around(place, place, first_ns, last_ns, stop)
        if context[0] < context[1]:
            yield survey_range(file.location, place, place, context)
