"""Java for Spark: found, and checked for its version, before Spark starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pregao.errors import UsageError

OLDEST_JAVA = 17
"""Minimum Java version of the supported Spark releases."""

_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True, slots=True)
class JavaInstallation:
    """Java installation: its home, and its major version."""

    home: Path
    version: int


def find_java(environment: Mapping[str, str] | None = None) -> JavaInstallation:
    """Return the first Java that is new enough: of JAVA_HOME, on the PATH, or macOS's own."""
    environment = os.environ if environment is None else environment
    seen: list[str] = []
    for where, program in _candidates(environment):
        version = java_version(program)
        if version is None:
            seen.append(f"{where} ({program}) does not run")
        elif version < OLDEST_JAVA:
            seen.append(f"{where} ({program}) is Java {version}")
        else:
            return JavaInstallation(program.resolve().parent.parent, version)
    found = f"; {'; '.join(seen)}" if seen else ", and none was found"
    raise UsageError(
        f"Spark needs Java {OLDEST_JAVA} or newer{found}. {_advice()} "
        "Then try again, or set JAVA_HOME to its folder."
    )


def require_java() -> JavaInstallation:
    """Find Java and make Spark use it; raise `UsageError` without one, before Spark starts."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def java_version(program: Path) -> int | None:
    """Return the major version of a Java, from its release file or its output; None if unknown."""
    try:
        release = (program.resolve().parent.parent / "release").read_text(errors="replace")
        if matched := _RELEASE.search(release):
            return _major(matched.group(1))
    except OSError:
        pass
    try:
        output = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    matched = _PRINTED.search(output.stderr + output.stdout)
    return None if matched is None else _major(matched.group(1))


def _major(version: str) -> int | None:
    """Return the major version: 17 of ``17.0.15``; in the scheme before 9, 8 of ``1.8.0_412``."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if program := shutil.which("java", path=environment.get("PATH")):
        yield "the PATH", Path(program)
    if sys.platform == "darwin":
        output = subprocess.run(  # noqa: S603 - a fixed command
            ["/usr/libexec/java_home", "-v", f"{OLDEST_JAVA}+"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        if output.returncode == 0:
            yield "java_home", Path(output.stdout.strip()) / "bin" / "java"


def _advice() -> str:
    if sys.platform == "darwin":
        return "Install it with `brew install openjdk@17`."
    if shutil.which("apt-get"):
        return "Install it with `sudo apt-get install openjdk-17-jre-headless`."
    if shutil.which("dnf"):
        return "Install it with `sudo dnf install java-17-openjdk-headless`."
    return "Install a Java runtime from your system, or from adoptium.net."
