"""Ingest captures into committed tables, exactly once, with every byte accounted for.

The lake is created while its first captures are read, and removed again if they have no content.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pregao._version import __version__
from pregao.clock import system_clock
from pregao.errors import CaptureError, NothingFoundError, PregaoError
from pregao.extras import require
from pregao.lake.execution.runner import Runner, SerialRunner, TaskProgress
from pregao.lake.ingest.discovery import find_captures
from pregao.lake.ingest.exclusions import (
    deduplicate,
    find_duplicates,
    has_supported_content,
    identify,
    reject_empty,
    reject_unsupported,
    was_streamed,
)
from pregao.lake.ingest.feed_assignment import decide_roles
from pregao.lake.ingest.fingerprint import range_hash
from pregao.lake.ingest.gaps import write_gaps
from pregao.lake.ingest.history import IngestState, channel_day_key, guard_key, load_ingest_state
from pregao.lake.ingest.late_packets import RenumberedEvents, renumber_events
from pregao.lake.ingest.merging import (
    TaskManifest,
    latest_rules,
    merge_staged,
    settle_latest,
)
from pregao.lake.ingest.options import IngestOptions, check_channels, check_days, check_options
from pregao.lake.ingest.planner import IngestPlan, make_plan
from pregao.lake.ingest.protocol import UNKNOWN_STREAM
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol, prepare
from pregao.lake.ingest.report import CaptureReport, IngestReport, check, gather
from pregao.lake.ingest.survey import CaptureSurvey, scan_tcp, survey
from pregao.lake.ingest.tables import first_specs, protocol_specs
from pregao.lake.ingest.task import INGEST, estimated_messages
from pregao.lake.ingest.window import FlowRole
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import STAGING, LakeStore
from pregao.lake.storage.parquet import WrittenFile
from pregao.lake.storage.transaction import until_committed
from pregao.units import day_of, iso_day

# --- Creation of the lake ---


class LakeCreation:
    """Creates the tables of a new lake while its first captures are read."""

    def __init__(self, lake: LakeStore, pool: ThreadPoolExecutor) -> None:
        self._lake = lake
        self._pool = pool
        self._work: Future[None] | None = None

    def start(self) -> None:
        """Start creating the tables, once."""
        if self._work is None:
            self._lake.begin()
            self._work = self._pool.submit(self._lake.ensure_tables, first_specs())

    def finish(self) -> None:
        """Wait until the tables exist."""
        self.start()
        if self._work is not None:
            self._work.result()


@contextmanager
def remove_empty_lake(lake: LakeStore) -> Iterator[None]:
    """On NothingFoundError, clear a location that was empty before and still has no lake."""
    existed = lake.location.exists()
    empty = not existed or not lake.location.entries()
    try:
        yield
    except NothingFoundError:
        if empty and lake.location.exists() and not lake.exists():
            if not existed:
                lake.location.delete_folder()
            else:
                for entry in lake.location.entries():
                    if entry.is_folder:
                        entry.location.delete_folder()
                    else:
                        entry.location.delete()
        raise


# --- Ingest ---


def ingest(
    captures: Iterable[str | Location],
    lake_location: str | Location,
    options: IngestOptions | None = None,
    *,
    runner: Runner | None = None,
    progress: TaskProgress | None = None,
    allow_empty: bool = False,
) -> IngestReport:
    """Ingest captures into a lake, skipping those that it already has.

    Tasks run in this process unless a runner is given. Captures without packets to ingest raise
    NothingFoundError unless ``allow_empty``.
    """
    require("numba")
    options = options or IngestOptions()
    check_options(options)
    prepare(options.schema_files)
    runner = runner or SerialRunner()
    progress = progress or TaskProgress()
    began = time.perf_counter()
    lake = LakeStore(lake_location)
    entries = find_captures(captures)
    locations = [entry.location for entry in entries]
    with ThreadPoolExecutor(1) as pool, remove_empty_lake(lake):
        creation: LakeCreation | None = None
        if lake.exists():
            progress.step("completing units of earlier runs")
            lake.ensure_tables(first_specs())
            lake.prepare()
            settle_latest(lake)
        else:
            creation = LakeCreation(lake, pool)

        def attempt() -> IngestReport | None:
            nonlocal creation
            report = _attempt(lake, locations, options, runner, progress, creation, allow_empty)
            if report.captures:
                creation = None
            report.seconds = time.perf_counter() - began
            if report.committed or not report.captures:
                return report
            progress.step("another ingest committed first; planning again")
            return None

        rivals = "other ingests keep committing the same captures"
        return until_committed(lake.location, rivals, attempt)


def _attempt(
    lake: LakeStore,
    locations: Sequence[Location],
    options: IngestOptions,
    runner: Runner,
    progress: TaskProgress,
    creation: LakeCreation | None,
    allow_empty: bool,
) -> IngestReport:
    report = IngestReport(unit_id=uuid.uuid4().hex)
    state = load_ingest_state(lake) if creation is None else IngestState()
    progress.step("surveying captures")
    surveys = []
    present: dict[str, str] = {}
    for location in locations:
        try:
            found = survey(location)
        except CaptureError as error:
            if not options.skip_damaged:
                raise
            report.damaged[location.name] = str(error)
            continue
        identity = state.identity_of(found.fingerprint, location, found.size)
        if identity is not None:
            present[location.name] = state.claim_key(identity)
        elif state.claimed and was_streamed(location, state):
            report.skipped[location.name] = "by a stream"
        else:
            surveys.append(found)
    if present:
        owners = lake.claimed(set(present.values()))
        report.skipped |= {name: owners.get(claim_key, "") for name, claim_key in present.items()}
    if surveys and not allow_empty:
        reject_unsupported(surveys)
    runner.expect(INGEST, estimated_messages(sum(found.size for found in surveys)))
    if creation is not None and has_supported_content(surveys, options):
        creation.start()
    deduplicate(surveys, report)
    while surveys:
        excluded = ingest_surveyed(
            lake,
            surveys,
            state,
            options,
            report,
            runner=runner,
            progress=progress,
            creation=creation,
            allow_empty=allow_empty,
        )
        if not excluded:
            break
        progress.step("decoding again without captures that are damaged or already ingested")
        surveys = [found for index, found in enumerate(surveys) if index not in excluded]
        report.captures, report.accounts = [], {}
    if report.damaged and not report.captures and not report.skipped:
        raise NothingFoundError("No capture can be read: " + " ".join(report.damaged.values()))
    return report


def ingest_surveyed(
    lake: LakeStore,
    surveys: list[CaptureSurvey],
    state: IngestState,
    options: IngestOptions,
    report: IngestReport,
    *,
    runner: Runner,
    progress: TaskProgress,
    continued: bool = False,
    creation: LakeCreation | None = None,
    allow_empty: bool = True,
) -> set[int]:
    """Decode surveyed captures and commit them as one unit.

    `IngestReport.committed` has the outcome. Surveys that own no packets and only give context come
    last. ``continued`` means that sequences continue from earlier units; ``creation`` that the
    tables are still being created. Reading may show that a compressed capture is already in the
    lake, a duplicate of another, or damaged: then nothing is committed, and the indexes of the
    surveys to leave out are returned.
    """
    plan, manifests = _run_tasks(lake, surveys, state, options, report, runner, progress)
    damaged = {index: why for each in manifests for index, why in each.damaged.items()}
    if damaged:
        report.damaged |= {surveys[i].location.name: why for i, why in damaged.items()}
        _remove_staging(lake, report.unit_id)
        return set(damaged)
    report.captures = [
        CaptureReport(s.location.name, s.size - s.start, i, s.identity, s.fingerprint)
        for s, i in zip(plan.surveys, plan.capture_ids, strict=True)
        if s.size > s.start
    ]
    gather(report, manifests)
    for index, capture in enumerate(report.captures):
        found = plan.surveys[index]
        if capture.content_hash:
            capture.range_hash = range_hash(found.location, found.start, found.size)
        else:
            identify(capture, manifests, index)
    # Uncompressed captures were looked up before they were read.
    identities = {
        state.claim_key(each.content_hash): each.content_hash
        for each in report.captures
        if each.plain_fingerprint
    }
    owners = lake.claimed(identities) if identities and lake.exists() else {}
    duplicates = find_duplicates(
        report, {identities[claim_key]: unit for claim_key, unit in owners.items()}
    )
    if duplicates:
        _remove_staging(lake, report.unit_id)
        return duplicates
    _check_budgets(manifests)
    check(report)
    if not allow_empty:
        reject_empty(report, surveys, options)
    if creation is not None:
        creation.start()
    files = [file for manifest in manifests for file in manifest.files]
    staged = [part for manifest in manifests for part in manifest.staged]
    if staged:
        progress.step("merging small tables")
        files += merge_staged(staged, lake.location, runner)
    files += write_gaps(lake.location, report, manifests, state, continued=continued)
    if creation is not None:
        creation.finish()
    others = [name for name in report.accounts if name != first_protocol().name]
    lake.ensure_tables(protocol_specs(others))
    renumbered = RenumberedEvents()
    if (earlier := state.coverage.get(first_protocol().name)) is not None:
        renumbered = renumber_events(lake, manifests, earlier, files)
    state.add(_commit(lake, report, plan, state, files, renumbered, progress))
    _remove_staging(lake, report.unit_id)
    return set()


def _check_budgets(manifests: list[TaskManifest]) -> None:
    days = {file.day for manifest in manifests for file in manifest.files}
    check_days(days | {file.day for manifest in manifests for file in manifest.staged})
    # Keys of coverage are day, channel, version, feed.
    check_channels({key[1] for manifest in manifests for key in manifest.coverage})


def _run_tasks(
    lake: LakeStore,
    surveys: list[CaptureSurvey],
    state: IngestState,
    options: IngestOptions,
    report: IngestReport,
    runner: Runner,
    progress: TaskProgress,
) -> tuple[IngestPlan, list[TaskManifest]]:
    """Run the tasks; plan and run them again if a flow turns out to carry another stream."""
    ids = [uuid.uuid4().hex[:16] for _ in surveys]
    for attempt in range(3):
        roles = decide_roles(surveys, state.roles.values(), options)
        staging = f"{STAGING}/{report.unit_id}-{attempt}"
        plan = make_plan(surveys, roles, lake.location, ids, staging, state.coverage, options)
        report.notes = list(plan.notes)
        report.tasks = len(plan.tasks)
        total = sum(found.size - found.start for found in surveys)
        progress.started(total, len(plan.tasks))
        manifests = runner.run(INGEST, plan.tasks, progress.advanced)
        if any(each.damaged for each in manifests):
            return plan, manifests
        if not _learn_streams(surveys, roles, manifests, options):
            return plan, manifests
        progress.step("a flow carries another stream than its sample showed; decoding again")
    raise PregaoError(
        "The streams of some flows could not be determined; set them with "
        "--stream ADDRESS:PORT=STREAM."
    )


def _learn_streams(
    surveys: list[CaptureSurvey],
    roles: list[FlowRole],
    manifests: list[TaskManifest],
    options: IngestOptions,
) -> bool:
    """Add evidence from the tasks to the surveys; return whether it changes a role."""
    fixed = {flow for flow, _ in options.streams}
    seen: dict[tuple[str, str], Counter[int]] = {}
    owners = {role.destination: role.protocol for role in roles}
    changed = False
    for manifest in manifests:
        for (flow, kind), count in manifest.evidence.items():
            seen.setdefault((manifest.protocol, flow), Counter())[kind] += count
        for capture, flow in manifest.unread_flows:
            surveys[capture].sighting(owners[flow], flow)
            changed = True
        for capture, statistics in manifest.statistics.items():
            if statistics.tcp and _needs_tcp_scan(surveys[capture]):
                changed |= scan_tcp(surveys[capture])
    planned = {role.destination: role.stream for role in roles}
    for (protocol, flow), kinds in seen.items():
        stream = PROTOCOLS[protocol].stream_of(kinds)
        # Inconclusive evidence is ignored: of a feed whose packets always arrive second, only
        # messages without a sequence number are decoded.
        if flow in fixed or stream in (UNKNOWN_STREAM, planned.get(flow)):
            continue
        surveys[0].sighting(protocol, flow).kinds = kinds
        changed = True
    return changed


def _needs_tcp_scan(found: CaptureSurvey) -> bool:
    """Whether to scan the TCP segments of a capture for a protocol that sampling missed.

    Returns True at most once per capture.
    """
    if found.context is not None or found.tcp_scanned:
        return False
    found.tcp_scanned = True
    return not any(PROTOCOLS[name].transport == "tcp" for name in found.evidence)


def _channels(surveys: list[CaptureSurvey], role: FlowRole) -> set[int]:
    """Return the channels that surveys found on a flow."""
    seen = (found.evidence.get(role.protocol, {}).get(role.destination) for found in surveys)
    return {channel for sighting in seen if sighting for channel in sighting.channels}


def _commit(
    lake: LakeStore,
    report: IngestReport,
    plan: IngestPlan,
    state: IngestState,
    files: list[WrittenFile],
    renumbered: RenumberedEvents,
    progress: TaskProgress,
) -> list[dict[str, Any]]:
    """Commit the written files, unless another unit has claimed a capture or channel meanwhile.

    Returns the new rows of ``ingests``; none if another unit was first.
    """
    report.files = len(files) + len(renumbered.files)
    report.bytes_written = sum(file.size for file in files)
    report.bytes_written += sum(file.size for file in renumbered.files)
    report.roles = [
        {
            "destination": role.destination,
            "protocol": role.protocol,
            "stream": role.stream,
            "feed": role.feed,
            "channels": sorted(_channels(plan.surveys, role)),
        }
        for role in plan.roles
    ]
    # Claimed like captures: if two ingests complete the same channel day at the same time, the
    # later one must plan again with the packets of the other.
    channel_days = sorted(
        {
            channel_day_key(protocol, name)
            for protocol, account in report.accounts.items()
            for name in account.coverage
        }
    )
    guards = [
        guard_key(channel_day, state.generations.get(channel_day, 0))
        for channel_day in channel_days
    ]
    rows = _ingest_rows(report)
    unit = CommitUnit(
        report.unit_id,
        tuple([state.claim_key(capture.content_hash) for capture in report.captures] + guards),
        (*lake.new_files(files), *renumbered.files),
        tuple(rows),
        tuple(renumbered.removed),
    )
    progress.step("committing")
    report.committed = lake.commit(unit).committed
    if not report.committed:
        return []
    if latest_rules().keys() & {file.table for file in files}:
        settle_latest(lake)
    return rows


def _ingest_rows(report: IngestReport) -> list[dict[str, Any]]:
    """Return the rows of ``ingests``, one per capture; the first one has the report."""
    # The stored report says that it is committed: it becomes visible only by the commit.
    report.committed = True
    now = system_clock()
    text = json.dumps(report.kept(), separators=(",", ":"))
    rows = []
    for index, capture in enumerate(report.captures):
        first = capture.first_time_ns or now
        rows.append(
            {
                "capture_id": capture.capture_id,
                "unit_id": report.unit_id,
                "content_hash": capture.content_hash,
                "name": capture.name,
                "size": capture.size,
                "fingerprint": capture.fingerprint,
                "first_time_ns": capture.first_time_ns,
                "last_time_ns": capture.last_time_ns,
                "packets": capture.statistics.udp,
                "messages": report.messages if index == 0 else None,
                "rejected": report.sums.packets.get("rejected", 0) if index == 0 else None,
                "schema_versions": sorted(report.sums.versions),
                "report": text if index == 0 else None,
                "committed_at_ns": now,
                "pregao_version": __version__,
                "plain_fingerprint": capture.plain_fingerprint or None,
                "range_hash": capture.range_hash or None,
                "date": iso_day(day_of(first)),
            }
        )
    return rows


def _remove_staging(lake: LakeStore, unit_id: str) -> None:
    for entry in lake.location.join(STAGING).entries():
        if entry.name.startswith(unit_id) and entry.is_folder:
            entry.location.delete_folder()
