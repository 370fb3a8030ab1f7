"""Package checks of `pregao doctor`: required and installed versions, missing extras."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from pregao._version import __version__
from pregao.cli.doctor_findings import Finding, problem, warning, well

_PACKAGE = "pregao"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_BOUND = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([0-9][^\s,]*)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A required package, its version bounds, and the extra that requires it, if any."""

    name: str
    bounds: tuple[tuple[str, tuple[int, ...]], ...]
    with_extras: tuple[str, ...] = ()
    extra: str | None = None

    @property
    def text(self) -> str:
        """Requirement as written for pip."""
        bounds = (f"{sign}{'.'.join(map(str, version))}" for sign, version in self.bounds)
        return f"{self.name}{','.join(bounds)}"

    def allows(self, version: str) -> bool:
        """Whether a version satisfies the ``>=`` and ``<`` bounds; other bounds are ignored."""
        have = _numbers(version)
        for sign, bound in self.bounds:
            if (sign == ">=" and have < bound) or (sign == "<" and have >= bound):
                return False
        return True


def parse_requirement(text: str) -> Requirement | None:
    """Parse a requirement of a package's metadata; None if it is for some platforms only."""
    matched = _REQUIREMENT.fullmatch(text.strip())
    if matched is None:
        return None
    name, extras, bounds, marker = matched.groups()
    extra = _EXTRA.search(marker) if marker else None
    if marker and _EXTRA.sub("", marker).strip(" ()"):
        return None
    return Requirement(
        name,
        tuple((sign, _numbers(version)) for sign, version in _BOUND.findall(bounds)),
        tuple(part.strip() for part in (extras or "").split(",") if part.strip()),
        extra[1] if extra else None,
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version: ``2.3.0rc1`` → 2, 3, 0."""
    matched = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, matched[0].split("."))) if matched else ()


def requirements(package: str) -> list[Requirement]:
    """Return the requirements of an installed package."""
    return [
        requirement
        for text in metadata.requires(package) or ()
        if (requirement := parse_requirement(text))
    ]


def check_python() -> Iterator[Finding]:
    """Check the version of Python."""
    have = ".".join(map(str, sys.version_info[:3]))
    found = f"Pregão {__version__} on Python {have}"
    try:
        specifier = str(metadata.metadata(_PACKAGE)["Requires-Python"] or "")
    except metadata.PackageNotFoundError:
        specifier = ""  # `check_packages` reports that it is not installed
    requirement = parse_requirement(f"Python{specifier}")
    if requirement is not None and not requirement.allows(have):
        yield problem("python", found, f"Install Pregão with {requirement.text}.")
    else:
        yield well("python", found)


def check_packages() -> Iterator[Finding]:
    """Check that every required package is installed in a supported version."""
    try:
        wanted = requirements(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield warning(
            "packages",
            "Pregão is not installed as a package, so its required versions are unknown.",
            "Install it with `pip install pregao`, or `pip install -e .` from a checkout.",
        )
        return
    needed = [each for each in wanted if each.extra is None]
    bad = [fault for each in needed for fault in _faults(each)]
    if bad:
        names = " ".join(f"'{each.text}'" for each, _ in bad)
        found = "; ".join(reason for _, reason in bad)
        yield problem("packages", found, f"Run `pip install {names}`.")
    else:
        have = ", ".join(f"{each.name} {metadata.version(each.name)}" for each in needed)
        yield well("packages", have)
    for extra in dict.fromkeys(each.extra for each in wanted if each.extra):
        yield _extra(extra, [each for each in wanted if each.extra == extra])


def _extra(name: str, wanted: Sequence[Requirement]) -> Finding:
    bad = [reason for each in wanted for _, reason in _faults(each)]
    subject = f"extra {name}"
    if not bad:
        return well(subject, "installed")
    remedy = f"If you use it, run `pip install '{_PACKAGE}[{name}]'`."
    return warning(subject, "; ".join(bad), remedy)


def _faults(wanted: Requirement) -> Iterator[tuple[Requirement, str]]:
    """Yield missing packages and wrong versions, including those of the package's extras."""
    try:
        have = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        yield wanted, f"{wanted.name} is missing"
        return
    if not wanted.allows(have):
        yield wanted, f"{wanted.name} is {have}, must be {wanted.text.removeprefix(wanted.name)}"
    for extra in wanted.with_extras:
        for inner in requirements(wanted.name):
            if inner.extra == extra:
                yield from _faults(inner)
