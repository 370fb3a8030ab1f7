"""Versions of packages: what Pregão asks for, what is installed, and which extras are missing."""

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
    """A package that is asked for: its versions, and the extra that needs it, if only that does."""

    name: str
    bounds: tuple[tuple[str, tuple[int, ...]], ...]
    with_extras: tuple[str, ...] = ()
    extra: str | None = None

    @property
    def text(self) -> str:
        """As a user would write it."""
        bounds = (f"{sign}{'.'.join(map(str, version))}" for sign, version in self.bounds)
        return f"{self.name}{','.join(bounds)}"

    def allows(self, version: str) -> bool:
        """Is a version one of those asked for? Bounds that only name a lower or upper end count."""
        have = _numbers(version)
        for sign, bound in self.bounds:
            if (sign == ">=" and have < bound) or (sign == "<" and have >= bound):
                return False
        return True


def parse_requirement(text: str) -> Requirement | None:
    """Read a line of a package's metadata; None if it is only for some machines or Pythons."""
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
    """The release of a version: ``2.3.0rc1`` → 2, 3, 0."""
    matched = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, matched[0].split("."))) if matched else ()


def requirements(package: str) -> list[Requirement]:
    """What an installed package asks for."""
    return [made for text in metadata.requires(package) or () if (made := parse_requirement(text))]


def check_python() -> Iterator[Finding]:
    """Is Python new enough?"""
    have = ".".join(map(str, sys.version_info[:3]))
    found = f"Pregão {__version__} on Python {have}"
    try:
        told = str(metadata.metadata(_PACKAGE)["Requires-Python"] or "")
    except metadata.PackageNotFoundError:
        told = ""  # the next check says that it is not installed
    wanted = parse_requirement(f"Python{told}")
    if wanted is not None and not wanted.allows(have):
        yield problem("python", found, f"Install Pregão with {wanted.text}.")
    else:
        yield well("python", found)


def check_packages() -> Iterator[Finding]:
    """Is every package that Pregão needs there, in a version that it works with?"""
    try:
        wanted = requirements(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield warning(
            "packages",
            "Pregão is not installed, so nothing tells which versions it needs.",
            "Install it with `pip install pregao`, or `pip install -e .` from a checkout.",
        )
        return
    needed = [each for each in wanted if each.extra is None]
    bad = [fault for each in needed for fault in _faults(each)]
    if bad:
        names = " ".join(f"'{each.text}'" for each, _ in bad)
        found = "; ".join(words for _, words in bad)
        yield problem("packages", found, f"Run `pip install {names}`.")
    else:
        have = ", ".join(f"{each.name} {metadata.version(each.name)}" for each in needed)
        yield well("packages", have)
    for extra in dict.fromkeys(each.extra for each in wanted if each.extra):
        yield _extra(extra, [each for each in wanted if each.extra == extra])


def _extra(name: str, wanted: Sequence[Requirement]) -> Finding:
    bad = [words for each in wanted for _, words in _faults(each)]
    subject = f"extra {name}"
    if not bad:
        return well(subject, "installed")
    remedy = f"If you use it, run `pip install '{_PACKAGE}[{name}]'`."
    return warning(subject, "; ".join(bad), remedy)


def _faults(wanted: Requirement) -> Iterator[tuple[Requirement, str]]:
    """What is missing or of another version, extras of the package included."""
    try:
        have = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        yield wanted, f"{wanted.name} is missing"
        return
    if not wanted.allows(have):
        yield wanted, f"{wanted.name} is {have}, not {wanted.text.removeprefix(wanted.name)}"
    for extra in wanted.with_extras:
        for inner in requirements(wanted.name):
            if inner.extra == extra:
                yield from _faults(inner)
