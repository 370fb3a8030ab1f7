"""Checks of `pregao doctor`: configuration, Java, memory, disks, kernels, network, packages."""

from __future__ import annotations

import os
import re
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pregao._version import __version__
from pregao.cli.doctor import Finding, problem, warning, well
from pregao.errors import PregaoError, UsageError
from pregao.safe_io.urls import redacted

_GIGABYTE = 1 << 30
_GROUP = "233.252.14.250"
"""A group of the range reserved for documentation, to which no feed sends."""
_DATAGRAM_S = 2.0

_PACKAGE = "pregao"
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_BOUND = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([0-9][^\s,]*)")


# --- Machine ---


def check_configuration() -> Iterator[Finding]:
    """Report the configuration of all commands and its source."""
    from pregao.cli.config import FILE, LAKE_VARIABLE, ZONE_VARIABLE, configuration
    from pregao.units import parse_zone

    try:
        found = configuration()
        if value := os.environ.get(ZONE_VARIABLE):
            parse_zone(value, ZONE_VARIABLE)
    except UsageError as error:
        remedy = "Fix the setting named in the error; docs/cli.md lists the settings."
        yield problem("configuration", str(error), remedy)
        return
    parts = [f"no {FILE}" if found.path is None else str(found.path)]
    for variable, configured, name in (
        (LAKE_VARIABLE, found.lake, "lake"),
        (ZONE_VARIABLE, found.tz, "tz"),
    ):
        value = os.environ.get(variable)
        if value or configured:
            parts.append(f"{name} {value} ({variable})" if value else f"{name} {configured}")
    yield well("configuration", redacted("; ".join(parts)))


def check_java() -> Iterator[Finding]:
    """Check for a Java version that Spark supports."""
    from pregao.lake.execution.spark_session import find_java

    try:
        java = find_java()
    except UsageError as error:
        found, _, remedy = str(error).partition(". ")
        more = "Without Java, use `--engine local`."
        yield warning("java", f"{found}.", f"{remedy} {more}")
        return
    yield well("java", f"Java {java.version} in {java.home}")


def check_memory() -> Iterator[Finding]:
    """Check the free memory."""
    from pregao.lake.execution.spark_session import machine_memory

    yield judged_memory(machine_memory(), _available())


def judged_memory(total: int, available: int | None) -> Finding:
    """Return the finding for an amount of memory."""
    free = total if available is None else min(total, available)
    found = f"{free / _GIGABYTE:.1f} of {total / _GIGABYTE:.1f} GB free"
    if free < _GIGABYTE // 2:
        return problem("memory", found, "Close other programs, or use a machine with more memory.")
    if free < 2 * _GIGABYTE:
        remedy = "Ingest in smaller tasks: `pregao ingest --range-size 16M --engine local`."
        return warning("memory", found, remedy)
    return well("memory", found)


def _available() -> int | None:
    """Return the memory available without swapping, in bytes; None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def check_disks() -> Iterator[Finding]:
    """Check that the working and temporary folders are writable and have free space."""
    yield check_folder("working folder", Path.cwd())
    yield check_folder("temporary folder", Path(tempfile.gettempdir()))


def check_folder(subject: str, folder: Path) -> Finding:
    """Check that a folder is writable and how much space is free."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = (
            "Set TMPDIR to a writable folder."
            if subject.startswith("temporary")
            else "Change to a writable folder, or write elsewhere with --lake and -o."
        )
        return warning(subject, f"{folder}: not writable ({reason})", remedy)
    free = shutil.disk_usage(folder).free
    found = f"{folder}: {free / _GIGABYTE:.1f} GB free"
    if free < _GIGABYTE:
        return problem(subject, found, "Free space there, or use another disk.")
    if free < 10 * _GIGABYTE:
        remedy = "A day of all channels takes tens of gigabytes; store it on another disk."
        return warning(subject, found, remedy)
    return well(subject, found)


def check_kernels() -> Iterator[Finding]:
    """Check that kernels compile, compute correctly and can be cached."""
    import numpy as np

    from pregao.cli import _kernels
    from pregao.extras import installed, kernels_compiled, remedy

    if not kernels_compiled():
        if installed("numba"):
            found, cure = "NUMBA_DISABLE_JIT is set", "Unset it"
        else:
            found, cure = "numba is not installed", f"Run {remedy('numba')}"
        yield warning(
            "kernels",
            f"Not compiled ({found}): the Python interpreter reads and decodes captures.",
            f"{cure} to process captures of more than a few megabytes.",
        )
        return

    sizes = np.zeros(1, np.int64)
    _kernels.number_sizes(np.array([-1234], np.int64), 2, sizes)
    if sizes[0] != len("-12.34"):
        yield problem(
            "kernels",
            "Compiled code returns wrong results on this machine.",
            "Reinstall numba and llvmlite: `pip install --force-reinstall numba llvmlite`.",
        )
        return
    from pregao._kernel_cache import refused_folders

    yield judged_cache(_kernels.number_sizes.stats.cache_path, refused_folders())


def judged_cache(folder: str | None, refused: Sequence[str] = ()) -> Finding:
    """Return the finding for the folder of compiled code, and for folders refused as unsafe."""
    remedy = "Set PREGAO_CACHE_DIR to a writable folder."
    if refused:
        remedy = (
            "Make these folders and their parents owned by you or root and writable only by the "
            "owner (`chmod go-w`), remove them, or set PREGAO_CACHE_DIR to another folder."
        )
    reasons = f" Not used: {'; '.join(refused)}." if refused else ""
    if folder is None:
        found = "No folder can cache compiled code: every command compiles it again."
        return warning("kernels", f"{found}{reasons}", remedy)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        return warning("kernels", f"{folder}: not writable ({reason})", remedy)
    # Without the subfolders of this version and of the package, for a shorter line.
    cached = f"cached in {Path(folder).parent.parent}"
    return warning("kernels", f"{cached}.{reasons}", remedy) if refused else well("kernels", cached)


def check_multicast() -> Iterator[Finding]:
    """Send a datagram to a multicast group on loopback and receive it."""
    from pregao.net.addresses import Address, find_interface
    from pregao.net.sender import Sender
    from pregao.net.sockets import receive_socket

    remedy = (
        "Run `ip link set lo up multicast on` and `ip route add 224.0.0.0/4 dev lo`, or use "
        "`pregao exchange --feed unicast`."
    )
    payload = os.urandom(16)
    try:
        interface = find_interface("lo" if os.uname().sysname == "Linux" else "127.0.0.1")
        address = Address(_GROUP, _free_port())
        # A small buffer: `check_buffers` checks the size.
        receiver = receive_socket(address, interface=interface, buffer_bytes=4096)
        with receiver, Sender([address], interface=interface, compiled=False) as sender:
            sender.send(0, payload)
            ready, _, _ = select.select([receiver], [], [], _DATAGRAM_S)
            received = receiver.recv(64) if ready else None
    except (OSError, PregaoError) as error:
        yield problem("multicast", f"Multicast on loopback failed: {error}", remedy)
        return
    if received == payload:
        yield well("multicast", f"a datagram to {address} was received on {interface.name}")
    else:
        found = f"A datagram to {address} on {interface.name} was not received."
        yield problem("multicast", found, remedy)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_buffers() -> Iterator[Finding]:
    """Check the size of the receive buffer that the kernel grants."""
    from pregao.net.sockets import BUFFER_BYTES, granted_buffer

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        yield judged_buffer(BUFFER_BYTES, granted_buffer(probe, BUFFER_BYTES))


def judged_buffer(wanted: int, granted: int) -> Finding:
    """Return the finding for a granted buffer size."""
    if granted >= wanted:
        return well("receive buffers", f"{granted:,} bytes")
    return warning(
        "receive buffers",
        f"{granted:,} of {wanted:,} bytes: bursts of a live feed may be lost",
        f"Run `sysctl -w net.core.rmem_max={wanted}` as root, and add it to /etc/sysctl.d.",
    )


def check_ports() -> Iterator[Finding]:
    """Check that the default ports of `pregao exchange` are free."""
    from pregao.exchange.host.settings import ExchangeSettings
    from pregao.net.addresses import Address

    settings = ExchangeSettings()
    wanted = [settings.primary, settings.backup, Address("127.0.0.1", settings.control_port)]
    yield judged_ports([each for each in wanted if each is not None])


def judged_ports(wanted: list[tuple[str, int]]) -> Finding:
    """Return the finding for addresses to listen on."""
    unavailable = []
    for host, port in wanted:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do, so that connections in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError as error:
                unavailable.append(f"{host}:{port} ({error.strerror or error})")
    if not unavailable:
        return well("ports", f"{', '.join(str(port) for _, port in wanted)} are free")
    remedy = (
        "Stop the process that listens there (perhaps a `pregao exchange`), or set other ports in "
        "the configuration of the exchange."
    )
    return warning("ports", f"not available: {', '.join(unavailable)}", remedy)


# --- Packages ---


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
