"""Check that an index such as PyPI would accept what was built: ``check_metadata.py dist``.

Name, version, license, description and links, as ``twine check --strict`` and the index require
them; without the network.
"""

from __future__ import annotations

import email
import re
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

NAME, LICENSE = "pregao", "Apache-2.0"
EXTRAS = {"all", "connect", "fast", "frames", "lake", "live", "plot", "spark", "tables", "ui"}
MAX_BYTES = 100_000_000
"""Largest file that PyPI accepts by default."""
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_URL = re.compile(r"git\+|@ (https?|file):")
_RELATIVE = re.compile(r"\]\((?!https?://|#)")


def main(arguments: list[str]) -> int:
    """Check a folder; print what is wrong, and return 1 if something is."""
    dist = Path(arguments[0] if arguments else "dist").resolve()
    wheel, source = next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        built = email.message_from_bytes(archive.read(_one(names, "METADATA")))
    with tarfile.open(source) as archive:
        member = archive.extractfile(_one(archive.getnames(), "PKG-INFO"))
        assert member is not None
        original = email.message_from_bytes(member.read())
    found = problems(built)
    found += [f"no {LICENSE} text in the wheel"] * (not any(n.endswith("/LICENSE") for n in names))
    for each in (wheel, source):
        if each.stat().st_size > MAX_BYTES:
            found.append(f"{each.name} is larger than {MAX_BYTES // 1_000_000} MB")
        if not each.name.startswith(f"{NAME}-{built['Version']}"):
            found.append(f"{each.name} is not named after the package and its version")
    if built.items() != original.items():
        found.append("wheel and source distribution have other metadata")
    for line in found:
        print(f"metadata: {line}")
    if count := len(_RELATIVE.findall(str(built.get_payload()))):
        print(f"note: {count} relative links of README.md lead nowhere on the page of an index")
    if not found:
        print(f"{wheel.name}, {source.name}: an index would accept them")
    return 1 if found else 0


def problems(metadata: Message) -> list[str]:
    """Return what an index would refuse, and what users would miss on its page."""
    found = []
    for name, wanted in (
        ("Name", NAME),
        ("License-Expression", LICENSE),
        ("License-File", "LICENSE"),
        ("Requires-Python", ">=3.11"),
        ("Description-Content-Type", "text/markdown"),
    ):
        if metadata[name] != wanted:
            found.append(f"{name} is {metadata[name]!r}, not {wanted!r}")
    if not _VERSION.fullmatch(metadata["Version"] or ""):
        found.append(f"Version {metadata['Version']!r} is not one of a release")
    if not metadata["Summary"] or "\n" in metadata["Summary"]:
        found.append("Summary must be one line")
    if set(metadata.get_all("Provides-Extra", [])) != EXTRAS:
        found.append(f"Provides-Extra is not {', '.join(sorted(EXTRAS))}")
    if any(_URL.search(each) for each in metadata.get_all("Requires-Dist", [])):
        found.append("Requires-Dist: an index refuses dependencies given by URL")
    if any(each.startswith("License ::") for each in metadata.get_all("Classifier", [])):
        found.append("Classifier: License-Expression replaces those of licenses")
    text = metadata.get_payload()
    if not isinstance(text, str) or not text.strip():
        found.append("there is no description")
    return found


def _one(names: list[str], name: str) -> str:
    """Return the path of a file at the top of an archive."""
    return min((each for each in names if each.endswith(f"/{name}")), key=len)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
