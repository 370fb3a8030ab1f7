"""`pregao doctor`: check whether this machine can run Pregão, and show remedies.

A check that fails or times out becomes a finding too.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated

import typer

from pregao.cli import options

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao doctor",
        "pregao doctor --json",
        "The exit code is 1 if there is a problem: a part of Pregão cannot run on this machine. "
        "With warnings only (slower, or not everything works) it is 0, or 1 with --strict.",
    )
)

PATIENCE_S = 40.0
"""Timeout of a check: longer than any check that can finish; a dead network disk never answers."""


# --- Findings ---


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
    from pregao.cli.errors import sentence

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


# --- Command ---


def doctor(
    as_json: options.Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")] = False,
) -> None:
    """Check whether this machine has what Pregão needs, and print remedies.

    Nothing is changed: test files are removed immediately.
    """

    found = list(findings_of(_checks()))
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        _show(found)
    bad = {FindingLevel.PROBLEM, FindingLevel.WARNING} if strict else {FindingLevel.PROBLEM}
    raise typer.Exit(1 if any(each.health in bad for each in found) else 0)


def _checks() -> list[tuple[str, Check]]:
    from pregao.cli import doctor_checks

    return [
        ("python", doctor_checks.check_python),
        ("packages", doctor_checks.check_packages),
        ("configuration", doctor_checks.check_configuration),
        ("java", doctor_checks.check_java),
        ("memory", doctor_checks.check_memory),
        ("disks", doctor_checks.check_disks),
        ("kernels", doctor_checks.check_kernels),
        ("multicast", doctor_checks.check_multicast),
        ("receive buffers", doctor_checks.check_buffers),
        ("ports", doctor_checks.check_ports),
    ]


def _show(found: list[Finding]) -> None:
    from pregao.cli.console import console, print_line, print_table

    out = console()
    print_table(
        out,
        "",
        ["subject", "health", "found"],
        [(each.subject, each.health.value, each.found) for each in found],
    )
    for each in found:
        if each.remedy is not None:
            print_line(out, f"{each.subject}: {each.remedy}")
    counts = Counter(each.health for each in found)
    if counts[FindingLevel.OK] == len(found):
        print_line(out, "All checks passed.")
        return
    parts = [
        f"{counts[health]} {health.value}{'s' if counts[health] != 1 else ''}"
        for health in (FindingLevel.PROBLEM, FindingLevel.WARNING)
        if counts[health]
    ]
    print_line(out, f"{' and '.join(parts)}; all other checks passed.")
