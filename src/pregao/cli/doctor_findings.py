"""What a check of `pregao doctor` found, and how checks are run: each in bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

PATIENCE_S = 40.0
"""Longer than any check takes that is answered at all; a dead network disk never answers."""


class Health(StrEnum):
    """How well something is."""

    OK = "ok"
    WARNING = "warning"
    """It works, but slower or not all of it."""
    PROBLEM = "problem"
    """A part of Pregão cannot work here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it in one sentence."""

    subject: str
    health: Health
    found: str
    remedy: str | None = None


Check = Callable[[], Iterable[Finding]]


def well(subject: str, found: str) -> Finding:
    """All is well."""
    return Finding(subject, Health.OK, found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """It works, but slower or not all of it."""
    return Finding(subject, Health.WARNING, found, remedy)


def problem(subject: str, found: str, remedy: str) -> Finding:
    """A part of Pregão cannot work here."""
    return Finding(subject, Health.PROBLEM, found, remedy)


def findings_of(
    checks: Iterable[tuple[str, Check]], patience_s: float = PATIENCE_S
) -> Iterator[Finding]:
    """Run checks one after the other; one that fails or never ends is a finding too."""
    for subject, check in checks:
        yield from _bounded(subject, check, patience_s)


def _bounded(subject: str, check: Check, patience_s: float) -> list[Finding]:
    from pregao.cli.ending import sentence

    made: list[Finding] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            made.extend(check())
        except Exception as error:
            errors.append(error)

    running = threading.Thread(target=run, name=f"doctor {subject}", daemon=True)
    running.start()
    running.join(patience_s)
    if running.is_alive():
        remedy = "Look whether a disk or network that it needs answers at all, then try again."
        return [problem(subject, f"The check did not end within {patience_s:g} s.", remedy)]
    if errors:
        remedy = "Mend what the sentence names, then try again."
        return [*made, problem(subject, sentence(errors[0]), remedy)]
    return made
