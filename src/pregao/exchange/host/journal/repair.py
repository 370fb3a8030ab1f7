"""Examination and repair of a damaged journal.

An exchange does not start from a journal that has lost records. The examination describes these
records as far as they are readable; the repair moves the damaged bytes into files next to the
journal, and the rest is a valid journal again. An exchange started from it differs from what its
clients saw: orders after the damage can have other numbers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.messages import messages
from pregao.errors import PregaoError, UsageError
from pregao.exchange.host.checkpoints.checkpoint_file import (
    JournalCheckpoint,
    checkpoint_files,
    read_checkpoint,
)
from pregao.exchange.host.checkpoints.checkpoints import code_digest
from pregao.exchange.host.journal.journal_file import (
    HEAD,
    LENGTHS,
    NO_FILE,
    JournalDamage,
    JournalEnd,
    JournalHeader,
    JournalRecord,
    RecordKind,
    describe,
    examine,
    is_begun,
    journal_files,
    kind_at,
    number_of,
    pack_header,
    read_header,
    skip,
    walk,
)
from pregao.safe_io import private_files

MAX_CONCERNS: Final = 1000
"""Maximum number of affected sessions and orders listed; the others are only counted."""
_NAMED: Final = ("clOrdID", "origClOrdID", "orderID", "securityID", "side", "orderQty")


@dataclass(slots=True)
class _File:
    """A file of the journal and its damage."""

    path: Path
    data: bytes
    header: JournalHeader
    regions: list[JournalDamage] = field(default_factory=list)
    relink: bool = False
    """Whether a repair rewrites its header."""
    ends_valid: bool = True
    checksum: int | None = 0


@dataclass(slots=True)
class Examination:
    """Result of the examination of a journal."""

    folder: Path
    findings: list[str] = field(default_factory=list)
    concerns: list[str] = field(default_factory=list)
    """Affected sessions and orders, as far as the remaining records show."""
    notes: list[str] = field(default_factory=list)
    """Damage that does not prevent this version from starting."""
    hopeless: list[str] = field(default_factory=list)
    """Damage that cannot be repaired."""
    set_aside: list[Path] = field(default_factory=list)
    """Files to which a repair moved damaged bytes."""
    _files: list[_File] = field(default_factory=list)
    _checkpoint_goes: bool = False

    @property
    def sound(self) -> bool:
        """Whether an exchange can start from the journal."""
        return not (self.findings or self.hopeless)

    def as_data(self) -> dict[str, Any]:
        """Return the result as a dictionary."""
        return {
            "sound": self.sound,
            "findings": self.findings,
            "concerns": self.concerns,
            "notes": self.notes,
            "cannot_be_repaired": self.hopeless,
            "set_aside": [str(path) for path in self.set_aside],
        }


def examine_journal(folder: Path) -> Examination:
    """Find all damage of a journal without changing it."""
    with _locked(folder):
        return _examined(folder)


def repair_journal(folder: Path) -> Examination:
    """Move damaged bytes to separate files; raise UsageError if that is impossible."""
    with _locked(folder):
        found = _examined(folder)
        if found.hopeless:
            raise UsageError(" ".join(found.hopeless))
        try:
            _repaired(found)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be repaired: {error.strerror}.") from error
    return found


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if not journal_files(folder):
        raise UsageError(f"{folder}: no journal of Pregão found.")
    try:
        lock = private_files.open_or_create(folder / "lock", os.O_RDWR)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(
            f"{folder}: a running exchange has this journal open; stop it first."
        ) from None
    finally:
        os.close(lock)


def _examined(folder: Path) -> Examination:
    found = Examination(folder)
    checkpoint = read_checkpoint(folder)
    paths = journal_files(folder)
    before = NO_FILE
    for path in paths:
        try:
            descriptor = private_files.open_existing(path)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read()
        except OSError as error:
            found.hopeless.append(f"{path}: cannot be read: {error.strerror}.")
            return found
        header = read_header(data)
        if header is None:
            if not (path == paths[-1] and is_begun(data)):
                found.hopeless.append(
                    f"{path}: the header is damaged, so that its records cannot be checked; "
                    "restore the file from a backup."
                )
            continue
        each = _File(path, data, header)
        found._files.append(each)
        _check_header(found, each, before)
        _find_regions(found, each, checkpoint, last=path == paths[-1])
        before = JournalEnd(number_of(path), len(data), each.checksum if each.ends_valid else None)
    _check_checkpoint(found, checkpoint)
    if any(each.regions for each in found._files):
        _find_concerns(found)
    return found


def _check_header(found: Examination, each: _File, before: JournalEnd) -> None:
    header, path, number = each.header, each.path, number_of(each.path)
    if not header.intact:
        each.relink = True
        found.findings.append(f"{path}: one of the two copies of the header is damaged.")
    previous = header.previous
    if header.version == 1:
        previous = before._replace(number=number - 1)
    elif header.number != number:
        found.hopeless.append(
            f"{path}: the header states file number {header.number}; rename the file back."
        )
        return
    if previous.number != before.number:
        missing = f"journal-{previous.number:06d}"
        if before is NO_FILE:
            found.hopeless.append(
                f"{path.with_name(missing)}: file is missing; restore it from a backup."
            )
        else:
            each.relink = True
            found.findings.append(
                f"{path.with_name(missing)}: file is missing, with all its records."
            )
    elif previous.size != before.size:
        each.relink = True
        found.findings.append(
            f"{path}: continues from byte {previous.size:,} of the previous file, which has "
            f"{before.size:,} bytes; the records between are missing."
        )
    elif None not in (previous.checksum, before.checksum) and previous.checksum != before.checksum:
        each.relink = True
        found.findings.append(
            f"{path}: continues from other records than those of the previous file."
        )


def _find_regions(
    found: Examination, each: _File, checkpoint: JournalCheckpoint | None, *, last: bool
) -> None:
    data, seed = each.data, each.header.seed
    position, number = each.header.start, 0
    while position < len(data):
        position, each.checksum, passed = skip(each.path, data, position, seed, each.checksum)
        number += passed
        if position == len(data):
            break
        damage = examine(data, position, seed)
        if damage.torn and last:
            found.notes.append(
                f"{each.path}: the last {len(data) - position} bytes are an incomplete write; the "
                "next start sets them aside."
            )
            return
        number += 1
        where = (
            f"{each.path}: bytes {damage.start:,} to {damage.end:,}, record {number} "
            f"({_readable(data, damage)})"
        )
        if checkpoint is not None and _covers(checkpoint, each.path, damage):
            found.notes.append(f"{where}: damaged, but a start resumes from a later checkpoint.")
        else:
            each.regions.append(damage)
            found.findings.append(f"{where}: damaged.")
        position = damage.end
        each.ends_valid = position < len(data)


def _covers(checkpoint: JournalCheckpoint, path: Path, damage: JournalDamage) -> bool:
    if checkpoint.code != code_digest() or not checkpoint.intact or checkpoint.missing:
        return False
    position = checkpoint.position
    return path.name < position.file or (path.name == position.file and damage.end <= position.size)


def _check_checkpoint(found: Examination, checkpoint: JournalCheckpoint | None) -> None:
    """Mark a checkpoint that does not fit the repaired journal to be set aside as well."""
    if checkpoint is None:
        return
    if checkpoint.missing:
        found._checkpoint_goes = True
        found.findings.append(
            f"{found.folder / checkpoint.position.file}: ends {checkpoint.missing:,} bytes before "
            "the position of its checkpoint; the records between are missing."
        )
    position = checkpoint.position
    for each in found._files:
        moved = each.relink and each.header.version == 1 and each.path.name == position.file
        cut = any(
            (each.path.name, region.start) < (position.file, position.size)
            for region in each.regions
        )
        if moved or cut:
            found._checkpoint_goes = True


def _readable(data: bytes, damage: JournalDamage) -> str:
    """Describe the readable parts of a damaged record."""
    words = describe(data, damage.start)
    if kind_at(data, damage.start) is not RecordKind.REQUEST:
        return words
    body = data[damage.start + LENGTHS.size + HEAD.size : damage.end]
    request = _decoded(body)
    if request is None:
        return words
    name, values = request
    readable = [f"{each} {values[each]}" for each in _NAMED if values.get(each) is not None]
    return f"{words}: readable parts: {name} {', '.join(readable)}".rstrip()


def _decoded(body: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the name and values of a request, or None if it cannot be decoded."""
    try:
        frame = frame_of(body)
        known = messages(frame.header.version)
        name = known.named(frame.header.template_id)
        return None if name is None else (name, known.decode(frame).values)
    except (PregaoError, ValueError, LookupError, TypeError):
        return None


def _find_concerns(found: Examination) -> None:
    """List the sessions with missing requests, and the requests about missing orders."""
    numbers: dict[int, int] = {}
    watched: dict[int, int] = {}
    """Last request number of the sessions without a request since the damage."""
    entered: set[tuple[int, Any]] = set()
    lost = False
    omitted = 0

    def concern(words: str) -> None:
        nonlocal omitted
        if len(found.concerns) < MAX_CONCERNS:
            found.concerns.append(words)
        else:
            omitted += 1

    for each in found._files:
        for record in _valid(each, lambda: watched.update(numbers)):
            lost = lost or bool(watched)
            request = _decoded(record.body) if record.kind is RecordKind.REQUEST else None
            if request is None:
                continue
            name, values = request
            session = record.session
            number = (values.get("businessHeader") or {}).get("msgSeqNum")
            if number is not None:
                last = watched.pop(session, None)
                if last is not None and number > last + 1:
                    missing = (
                        f"request {last + 1}"
                        if number == last + 2
                        else (f"requests {last + 1} to {number - 1}")
                    )
                    concern(f"session {session}: {missing} missing")
                numbers[session] = number
            cl_ord_id, orig_cl_ord_id = values.get("clOrdID"), values.get("origClOrdID")
            if lost and orig_cl_ord_id is not None and (session, orig_cl_ord_id) not in entered:
                concern(
                    f"session {session}: {name} {cl_ord_id} refers to order {orig_cl_ord_id}, "
                    "which is missing"
                )
            entered.add((session, cl_ord_id))
    if omitted:
        found.concerns.append(f"and {omitted:,} more")


def _valid(each: _File, damaged: Callable[[], None]) -> Iterator[JournalRecord]:
    """Yield the valid records of a file; call ``damaged`` where records are missing."""
    start = each.header.start
    for region in (*each.regions, None):
        end = len(each.data) if region is None else region.start
        yield from walk(each.path, each.data[:end], start, each.header.seed)
        if region is not None:
            damaged()
            start = region.end


def _repaired(found: Examination) -> None:
    before = NO_FILE
    changed = False
    for each in found._files:
        data, number = each.data, number_of(each.path)
        for region in each.regions:
            name = f"{each.path.name}.damaged-{region.start}"
            aside = private_files.unused(each.path.with_name(name))
            private_files.write_new(aside, data[region.start : region.end])
            found.set_aside.append(aside)
        parts, start = [], each.header.start
        for region in each.regions:
            parts.append(data[start : region.start])
            start = region.end
        parts.append(data[start:])
        header = data[: each.header.start]
        if each.relink or (changed and each.header.version > 1):
            header = pack_header(number, each.header.seed, before)
        changed = changed or bool(each.regions)
        content = b"".join((header, *parts))
        if content != data:
            private_files.replace(each.path, content)
        before = JournalEnd(number, len(content), each.checksum)
    if found._checkpoint_goes:
        for path in checkpoint_files(found.folder):
            aside = private_files.unused(path.with_name(f"{path.name}.before-repair"))
            path.rename(aside)
            found.set_aside.append(aside)
    private_files.sync_folder(found.folder)
