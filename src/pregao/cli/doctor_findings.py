"""Findings of `pregao doctor`, and running its checks with a timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

PATIENCE_S = 40.0
"""Timeout of a check: longer than any check that can finish; a dead network disk never answers."""


class FindingLevel(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    """Works, but slower or only in part."""
    PROBLEM = "problem"
    """A part of Pregão cannot run on this machine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check, with a one-sentence remedy."""

    subject: str
    health: FindingLevel
    found: str
    remedy: str | None = None


Check = Callable[[], Iterable[Finding]]


def well(subject: str, found: str) -> Finding:
    """Return a finding without a warning or problem."""
    return Finding(subject, FindingLevel.OK, found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """Return a finding of something that works, but slower or only in part."""
    return Finding(subject, FindingLevel.WARNING, found, remedy)


def problem(subject: str, found: str, remedy: str) -> Finding:
    """Return a finding of a part of Pregão that cannot run on this machine."""
    return Finding(subject, FindingLevel.PROBLEM, found, remedy)


def findings_of(
    checks: Iterable[tuple[str, Check]], patience_s: float = PATIENCE_S
) -> Iterator[Finding]:
    """Run checks in sequence; a check that fails or times out yields a problem."""
    for subject, check in checks:
        yield from _bounded(subject, check, patience_s)


def _bounded(subject: str, check: Check, patience_s: float) -> list[Finding]:
    from pregao.cli.ending import sentence

    findings: list[Finding] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            findings.extend(check())
        except Exception as error:
            errors.append(error)

    running = threading.Thread(target=run, name=f"doctor {subject}", daemon=True)
    running.start()
    running.join(patience_s)
    if running.is_alive():
        remedy = "Check that the disks and networks it uses respond, then run it again."
        return [problem(subject, f"The check did not finish within {patience_s:g} s.", remedy)]
    if errors:
        remedy = "Fix the error shown, then run `pregao doctor` again."
        return [*findings, problem(subject, sentence(errors[0]), remedy)]
    return findings
