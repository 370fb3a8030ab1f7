"""The ingest: survey captures, split them into tasks, decode, account for and commit the rows.

Public names are imported on first use: a command that only lists tables does not load the decoders.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.ingest.captures import find_captures as find_captures
    from pregao.lake.ingest.captures import is_capture_name as is_capture_name
    from pregao.lake.ingest.check import Checked as Checked
    from pregao.lake.ingest.check import check_lake as check_lake
    from pregao.lake.ingest.check import unsound as unsound
    from pregao.lake.ingest.compaction import compact as compact
    from pregao.lake.ingest.coverage import joined_runs as joined_runs
    from pregao.lake.ingest.files import write_rows as write_rows
    from pregao.lake.ingest.growing_file import GrowingFile as GrowingFile
    from pregao.lake.ingest.growing_file import file_identity as file_identity
    from pregao.lake.ingest.growing_file import look_into as look_into
    from pregao.lake.ingest.hashing import content_hash as content_hash
    from pregao.lake.ingest.hashing import fingerprint as fingerprint
    from pregao.lake.ingest.intake import ingest as ingest
    from pregao.lake.ingest.intake import take_in as take_in
    from pregao.lake.ingest.known import REST as REST
    from pregao.lake.ingest.known import Known as Known
    from pregao.lake.ingest.known import coverage_by_protocol as coverage_by_protocol
    from pregao.lake.ingest.known import guard as guard
    from pregao.lake.ingest.known import guarded_place as guarded_place
    from pregao.lake.ingest.known import range_identity as range_identity
    from pregao.lake.ingest.latest import settle_latest as settle_latest
    from pregao.lake.ingest.legacy.slots import slot_of as slot_of
    from pregao.lake.ingest.manifests import Manifest as Manifest
    from pregao.lake.ingest.memory import read_known as read_known
    from pregao.lake.ingest.merging import merge_staged as merge_staged
    from pregao.lake.ingest.numberings import Numbering as Numbering
    from pregao.lake.ingest.numberings import first_version as first_version
    from pregao.lake.ingest.numberings import in_order as in_order
    from pregao.lake.ingest.numberings import numberings_of as numberings_of
    from pregao.lake.ingest.options import TARGET_BYTES as TARGET_BYTES
    from pregao.lake.ingest.options import Options as Options
    from pregao.lake.ingest.options import check_options as check_options
    from pregao.lake.ingest.places import OpenPcap as OpenPcap
    from pregao.lake.ingest.protocol import UNKNOWN_STREAM as UNKNOWN_STREAM
    from pregao.lake.ingest.protocol import Protocol as Protocol
    from pregao.lake.ingest.protocol import Sighting as Sighting
    from pregao.lake.ingest.protocol import destination_of as destination_of
    from pregao.lake.ingest.protocols import PROTOCOLS as PROTOCOLS
    from pregao.lake.ingest.protocols import first_protocol as first_protocol
    from pregao.lake.ingest.report import Report as Report
    from pregao.lake.ingest.running import Merger as Merger
    from pregao.lake.ingest.running import Runner as Runner
    from pregao.lake.ingest.running import TaskProgress as TaskProgress
    from pregao.lake.ingest.running import bytes_of as bytes_of
    from pregao.lake.ingest.running import merge_here as merge_here
    from pregao.lake.ingest.running import run_here as run_here
    from pregao.lake.ingest.schemas import DATE_FIELD as DATE_FIELD
    from pregao.lake.ingest.schemas import GAPS as GAPS
    from pregao.lake.ingest.schemas import bounded_spec as bounded_spec
    from pregao.lake.ingest.surveys import CaptureSurvey as CaptureSurvey
    from pregao.lake.ingest.surveys import survey as survey
    from pregao.lake.ingest.surveys import survey_range as survey_range
    from pregao.lake.ingest.table_summaries import summarize as summarize
    from pregao.lake.ingest.table_summaries import table_columns as table_columns
    from pregao.lake.ingest.table_summaries import type_name as type_name
    from pregao.lake.ingest.tables import first_specs as first_specs
    from pregao.lake.ingest.tables import table_specs as table_specs
    from pregao.lake.ingest.tasks import Task as Task
    from pregao.lake.ingest.tasks import run_task as run_task
    from pregao.lake.ingest.template_tables import message_fields as message_fields
    from pregao.lake.ingest.umdf.instruments import instruments_without as instruments_without
    from pregao.lake.ingest.umdf.tables import bundled_message_tables as bundled_message_tables
    from pregao.lake.ingest.umdf.tables import message_table_name as message_table_name
    from pregao.lake.ingest.window import forget_scratch as forget_scratch

# fmt: off
_HOMES = {
    "captures": ["find_captures", "is_capture_name"],
    "check": ["Checked", "check_lake", "unsound"],
    "compaction": ["compact"],
    "coverage": ["joined_runs"],
    "files": ["write_rows"],
    "growing_file": ["GrowingFile", "file_identity", "look_into"],
    "hashing": ["content_hash", "fingerprint"],
    "intake": ["ingest", "take_in"],
    "known": [
        "REST", "Known", "coverage_by_protocol", "guard", "guarded_place", "range_identity",
    ],
    "latest": ["settle_latest"],
    "memory": ["read_known"],
    "merging": ["merge_staged"],
    "numberings": ["Numbering", "first_version", "in_order", "numberings_of"],
    "options": ["Options", "TARGET_BYTES", "check_options"],
    "places": ["OpenPcap"],
    "protocol": ["UNKNOWN_STREAM", "Protocol", "Sighting", "destination_of"],
    "protocols": ["PROTOCOLS", "first_protocol"],
    "report": ["Report"],
    "running": ["Merger", "Runner", "TaskProgress", "bytes_of", "merge_here", "run_here"],
    "schemas": ["DATE_FIELD", "GAPS", "bounded_spec"],
    "surveys": ["CaptureSurvey", "survey", "survey_range"],
    "tables": ["first_specs", "table_specs"],
    "table_summaries": ["summarize", "table_columns", "type_name"],
    "legacy.slots": ["slot_of"],
    "manifests": ["Manifest"],
    "tasks": ["Task", "run_task"],
    "umdf.instruments": ["instruments_without"],
    "template_tables": ["message_fields"],
    "window": ["forget_scratch"],
    "umdf.tables": ["bundled_message_tables", "message_table_name"],
}
# fmt: on
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
