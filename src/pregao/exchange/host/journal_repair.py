"""Repair of a damaged journal: what is damaged, whom it concerns, and setting it aside.

A start refuses a journal that has lost records. Here they are named as far as they can be read;
with the owner's consent the damaged bytes go into files beside it, and the rest is a journal again.
An exchange that starts from it is another one than its clients saw: orders after the damage can
have other numbers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pregao import private_files
from pregao.entrypoint import messages
from pregao.entrypoint.framing import frame_of
from pregao.errors import PregaoError, UsageError
from pregao.exchange.host.checkpoint_file import Checkpoint, checkpoint_files, read_checkpoint
from pregao.exchange.host.checkpoints import code_digest
from pregao.exchange.host.journal_file import (
    HEAD,
    LENGTHS,
    NO_FILE,
    Damage,
    End,
    Header,
    Kind,
    Record,
    describe,
    examine,
    is_begun,
    journal_files,
    number_of,
    pack_header,
    read_header,
    skip,
    walk,
)

MAX_CONCERNS: Final = 1000
"""So many sessions and orders are named; of the others only the number is."""
_NAMED: Final = ("clOrdID", "origClOrdID", "orderID", "securityID", "side", "orderQty")


@dataclass(slots=True)
class _File:
    """A file of the journal and what is wrong with it."""

    path: Path
    data: bytes
    header: Header
    regions: list[Damage] = field(default_factory=list)
    relink: bool = False
    """Whether its header is written again."""
    ends_valid: bool = True
    checksum: int | None = 0


@dataclass(slots=True)
class Examination:
    """The damage of a journal."""

    folder: Path
    findings: list[str] = field(default_factory=list)
    concerns: list[str] = field(default_factory=list)
    """Sessions and orders that lost something, as far as that can be known."""
    notes: list[str] = field(default_factory=list)
    """Damage that no start of this version meets."""
    hopeless: list[str] = field(default_factory=list)
    """Damage that cannot be repaired here."""
    set_aside: list[Path] = field(default_factory=list)
    """The files that a repair has made of what was damaged."""
    _files: list[_File] = field(default_factory=list)
    _checkpoint_goes: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing keeps an exchange from starting with it."""
        return not (self.findings or self.hopeless)

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "sound": self.sound,
            "findings": self.findings,
            "concerns": self.concerns,
            "notes": self.notes,
            "cannot_be_repaired": self.hopeless,
            "set_aside": [str(path) for path in self.set_aside],
        }


def examine_journal(folder: Path) -> Examination:
    """Find all damage of a journal, changing nothing."""
    with _locked(folder):
        return _examined(folder)


def repair_journal(folder: Path) -> Examination:
    """Set what is damaged aside; UsageError if that is not possible."""
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
        raise UsageError(f"{folder}: there is no journal of Pregão here.")
    try:
        lock = private_files.open_or_create(folder / "lock", os.O_RDWR)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"{folder}: an exchange has this journal open.") from None
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
                    f"{path}: its beginning is damaged, so that its records cannot be checked: "
                    "restore it from a copy."
                )
            continue
        each = _File(path, data, header)
        found._files.append(each)
        _check_header(found, each, before)
        _find_regions(found, each, checkpoint, last=path == paths[-1])
        before = End(number_of(path), len(data), each.checksum if each.ends_valid else None)
    _check_checkpoint(found, checkpoint)
    if any(each.regions for each in found._files):
        _find_concerns(found)
    return found


def _check_header(found: Examination, each: _File, before: End) -> None:
    header, path, number = each.header, each.path, number_of(each.path)
    if not header.intact:
        each.relink = True
        found.findings.append(f"{path}: one of the two copies of its header is damaged.")
    previous = header.previous
    if header.version == 1:
        previous = before._replace(number=number - 1)
    elif header.number != number:
        found.hopeless.append(
            f"{path}: it is file {header.number} of a journal: give it that name again."
        )
        return
    if previous.number != before.number:
        missing = f"journal-{previous.number:06d}"
        if before is NO_FILE:
            found.hopeless.append(f"{path.with_name(missing)}: is missing: restore it from a copy.")
        else:
            each.relink = True
            found.findings.append(f"{path.with_name(missing)}: is missing, with all its records.")
    elif previous.size != before.size:
        each.relink = True
        found.findings.append(
            f"{path}: goes on from byte {previous.size:,} of the file before it, which has "
            f"{before.size:,} bytes: what is between is missing."
        )
    elif None not in (previous.checksum, before.checksum) and previous.checksum != before.checksum:
        each.relink = True
        found.findings.append(
            f"{path}: goes on from other records than those of the file before it."
        )


def _find_regions(
    found: Examination, each: _File, checkpoint: Checkpoint | None, *, last: bool
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
                f"{each.path}: the last {len(data) - position} bytes are a write that was cut "
                "short; the next start sets them aside."
            )
            return
        number += 1
        where = (
            f"{each.path}: bytes {damage.start:,} to {damage.end:,}, record {number} "
            f"({_readable(data, damage)})"
        )
        if checkpoint is not None and _covers(checkpoint, each.path, damage):
            found.notes.append(f"{where}: damaged, but a start goes on from a later checkpoint.")
        else:
            each.regions.append(damage)
            found.findings.append(f"{where}: damaged.")
        position = damage.end
        each.ends_valid = position < len(data)


def _covers(checkpoint: Checkpoint, path: Path, damage: Damage) -> bool:
    if checkpoint.code != code_digest() or not checkpoint.intact or checkpoint.missing:
        return False
    place = checkpoint.place
    return path.name < place.file or (path.name == place.file and damage.end <= place.size)


def _check_checkpoint(found: Examination, checkpoint: Checkpoint | None) -> None:
    """A checkpoint that the repaired journal does not fit is set aside as well."""
    if checkpoint is None:
        return
    if checkpoint.missing:
        found._checkpoint_goes = True
        found.findings.append(
            f"{found.folder / checkpoint.place.file}: ends {checkpoint.missing:,} bytes before the "
            "place of its checkpoint: what is between is missing."
        )
    place = checkpoint.place
    for each in found._files:
        moved = each.relink and each.header.version == 1 and each.path.name == place.file
        cut = any(
            (each.path.name, region.start) < (place.file, place.size) for region in each.regions
        )
        if moved or cut:
            found._checkpoint_goes = True


def _readable(data: bytes, damage: Damage) -> str:
    """What can be read of a damaged record."""
    words = describe(data, damage.start)
    if "REQUEST" not in words:
        return words
    body = data[damage.start + LENGTHS.size + HEAD.size : damage.end]
    request = _decoded(body)
    if request is None:
        return words
    name, values = request
    given = [f"{each} {values[each]}" for each in _NAMED if values.get(each) is not None]
    return f"{words}: as far as it can be read, {name} {', '.join(given)}".rstrip()


def _decoded(body: bytes) -> tuple[str, dict[str, Any]] | None:
    """A request by its name and values, if that much of it is whole."""
    try:
        frame = frame_of(body)
        known = messages(frame.header.version)
        name = known.named(frame.header.template_id)
        return None if name is None else (name, known.decode(frame).values)
    except (PregaoError, ValueError, LookupError, TypeError):
        return None


def _find_concerns(found: Examination) -> None:
    """Name the sessions whose requests are missing, and the requests about orders that are."""
    numbers: dict[int, int] = {}
    watched: dict[int, int] = {}
    """Sessions whose first request after damage is still to come, with their last number."""
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
            request = _decoded(record.body) if record.kind is Kind.REQUEST else None
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
            own, other = values.get("clOrdID"), values.get("origClOrdID")
            if lost and other is not None and (session, other) not in entered:
                concern(f"session {session}: {name} {own} is about order {other}, which is missing")
            entered.add((session, own))
    if omitted:
        found.concerns.append(f"and {omitted:,} more")


def _valid(each: _File, damaged: Callable[[], None]) -> Iterator[Record]:
    """The valid records of a file; ``damaged`` is called where others are missing."""
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
        whole = b"".join((header, *parts))
        if whole != data:
            private_files.replace(each.path, whole)
        before = End(number, len(whole), each.checksum)
    if found._checkpoint_goes:
        for path in checkpoint_files(found.folder):
            aside = private_files.unused(path.with_name(f"{path.name}.before-repair"))
            path.rename(aside)
            found.set_aside.append(aside)
    private_files.sync_folder(found.folder)
