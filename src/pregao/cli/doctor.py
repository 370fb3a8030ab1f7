"""`pregao doctor`: check whether this machine can run Pregão, with remedies."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options

if TYPE_CHECKING:
    from pregao.cli.doctor_findings import Check, Finding

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao doctor",
        "pregao doctor --json",
        "The exit code is 1 if there is a problem: a part of Pregão cannot run on this machine. "
        "With warnings only (slower, or not everything works) it is 0, or 1 with --strict.",
    )
)


def doctor(
    as_json: options.Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")] = False,
) -> None:
    """Check whether this machine has what Pregão needs, and print remedies.

    Nothing is changed: test files are removed immediately.
    """
    from pregao.cli.doctor_findings import FindingLevel, findings_of

    found = list(findings_of(_checks()))
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        _show(found)
    bad = {FindingLevel.PROBLEM, FindingLevel.WARNING} if strict else {FindingLevel.PROBLEM}
    raise typer.Exit(1 if any(each.health in bad for each in found) else 0)


def _checks() -> list[tuple[str, Check]]:
    from pregao.cli import doctor_machine, doctor_packages

    return [
        ("python", doctor_packages.check_python),
        ("packages", doctor_packages.check_packages),
        ("configuration", doctor_machine.check_configuration),
        ("java", doctor_machine.check_java),
        ("memory", doctor_machine.check_memory),
        ("disks", doctor_machine.check_disks),
        ("kernels", doctor_machine.check_kernels),
        ("multicast", doctor_machine.check_multicast),
        ("receive buffers", doctor_machine.check_buffers),
        ("ports", doctor_machine.check_ports),
    ]


def _show(found: list[Finding]) -> None:
    from pregao.cli.doctor_findings import FindingLevel
    from pregao.cli.terminal import console, print_line, print_table

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
