"""The machine as `pregao doctor` looks at it: Java, memory, disk, kernels, network, ports."""

from __future__ import annotations

import os
import select
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pregao.cli.doctor_findings import Finding, problem, warning, well
from pregao.errors import PregaoError, UsageError
from pregao.urls import redacted

_GIGABYTE = 1 << 30
_GROUP = "233.252.14.250"
"""Of the groups that are reserved for documentation: nobody sends there."""
_DATAGRAM_S = 2.0


def check_configuration() -> Iterator[Finding]:
    """What is set for all commands, and by what?"""
    from pregao.cli.configuration import FILE, LAKE_VARIABLE, ZONE_VARIABLE, configuration, zone

    try:
        found = configuration()
        if named := os.environ.get(ZONE_VARIABLE):
            zone(named, ZONE_VARIABLE)
    except UsageError as error:
        remedy = "Correct what the sentence names; docs/cli.md tells what may be set."
        yield problem("configuration", str(error), remedy)
        return
    parts = [f"no {FILE}" if found.path is None else str(found.path)]
    for variable, set_there, word in (
        (LAKE_VARIABLE, found.lake, "lake"),
        (ZONE_VARIABLE, found.tz, "tz"),
    ):
        named = os.environ.get(variable)
        if named or set_there:
            parts.append(f"{word} {named} ({variable})" if named else f"{word} {set_there}")
    yield well("configuration", redacted("; ".join(parts)))


def check_java() -> Iterator[Finding]:
    """Is there a Java that Spark runs on?"""
    from pregao.lake.spark import find_java

    try:
        java = find_java()
    except UsageError as error:
        found, _, remedy = str(error).partition(". ")
        more = "Without Java, `--master here` works in this process."
        yield warning("java", f"{found}.", f"{remedy} {more}")
        return
    yield well("java", f"Java {java.version} in {java.home}")


def check_memory() -> Iterator[Finding]:
    """Is there memory for a day?"""
    from pregao.lake.spark import machine_memory

    yield judged_memory(machine_memory(), _available())


def judged_memory(total: int, available: int | None) -> Finding:
    """What an amount of memory is good for."""
    free = total if available is None else min(total, available)
    found = f"{free / _GIGABYTE:.1f} of {total / _GIGABYTE:.1f} GB free"
    if free < _GIGABYTE // 2:
        return problem("memory", found, "End other programs, or use a machine with more memory.")
    if free < 2 * _GIGABYTE:
        remedy = "Take in a day in smaller ranges (`pregao ingest --range-size 16M --master here`)."
        return warning("memory", found, remedy)
    return well("memory", found)


def _available() -> int | None:
    """The bytes that programs may take before the system swaps, where it tells them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def check_disks() -> Iterator[Finding]:
    """Can files be made in the working and the temporary folder, and is there room for them?"""
    yield check_folder("working folder", Path.cwd())
    yield check_folder("temporary folder", Path(tempfile.gettempdir()))


def check_folder(subject: str, folder: Path) -> Finding:
    """Make a file in a folder, and look how much room there is."""
    try:
        with tempfile.TemporaryFile(dir=folder) as made:
            made.write(bytes(4096))
            made.flush()
    except OSError as error:
        why = error.strerror or str(error)
        remedy = (
            "Set TMPDIR to a folder in which you may write."
            if subject.startswith("temporary")
            else "Work in another folder, or name others with --lake and -o."
        )
        return warning(subject, f"{folder}: no file can be made there ({why})", remedy)
    free = shutil.disk_usage(folder).free
    found = f"{folder}: {free / _GIGABYTE:.1f} GB free"
    if free < _GIGABYTE:
        return problem(subject, found, "Remove files there, or work on another disk.")
    if free < 10 * _GIGABYTE:
        remedy = "Mind that a day of all channels takes tens of gigabytes; keep it on another disk."
        return warning(subject, found, remedy)
    return well(subject, found)


def check_kernels() -> Iterator[Finding]:
    """Is compiled code kept? A kernel is compiled or loaded, and a file made beside its code."""
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
            f"Not compiled ({found}): captures are read and decoded by the interpreter.",
            f"{cure} if you have captures of more than some megabytes.",
        )
        return

    sizes = np.zeros(1, np.int64)
    _kernels.number_sizes(np.array([-1234], np.int64), 2, sizes)
    if sizes[0] != len("-12.34"):
        yield problem(
            "kernels",
            "Compiled code gives wrong answers on this machine.",
            "Install numba and llvmlite again (`pip install --force-reinstall numba llvmlite`).",
        )
        return
    from pregao._kernel_cache import refused_places

    yield judged_cache(_kernels.number_sizes.stats.cache_path, refused_places())


def judged_cache(folder: str | None, refused: Sequence[str] = ()) -> Finding:
    """Is this a folder in which compiled code is kept? Others may be refused as unsafe."""
    remedy = "Set PREGAO_CACHE_DIR to a folder in which you may write."
    if refused:
        remedy = (
            "Make these folders, and those above them, yours or root's and writable by nobody "
            "else (`chmod go-w`), or remove them, or set PREGAO_CACHE_DIR to another folder."
        )
    reasons = f" Not used: {'; '.join(refused)}." if refused else ""
    if folder is None:
        found = "No folder can be used for compiled code: every command compiles it again."
        return warning("kernels", f"{found}{reasons}", remedy)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        return warning("kernels", f"{folder}: no file can be made there ({why})", remedy)
    # Without the folder of this version and that of the package: too long to read.
    kept = f"kept in {Path(folder).parent.parent}"
    return warning("kernels", f"{kept}.{reasons}", remedy) if refused else well("kernels", kept)


def check_multicast() -> Iterator[Finding]:
    """Send a datagram to a group on loopback, and hear it."""
    from pregao.net import Address, Sender, find_interface, receive_socket

    remedy = (
        "Run `ip link set lo up multicast on` and `ip route add 224.0.0.0/4 dev lo`; or do "
        "without: `pregao exchange --feed unicast`."
    )
    payload = os.urandom(16)
    try:
        interface = find_interface("lo" if os.uname().sysname == "Linux" else "127.0.0.1")
        address = Address(_GROUP, _free_port())
        # A small buffer: how large they may be is another check.
        listening = receive_socket(address, interface=interface, buffer_bytes=4096)
        with listening, Sender([address], interface=interface, compiled=False) as sender:
            sender.send(0, payload)
            heard, _, _ = select.select([listening], [], [], _DATAGRAM_S)
            got = listening.recv(64) if heard else None
    except (OSError, PregaoError) as error:
        yield problem("multicast", f"Not on loopback: {error}", remedy)
        return
    if got == payload:
        yield well("multicast", f"a datagram to {address} was heard on {interface.name}")
    else:
        found = f"A datagram to {address} on {interface.name} was not heard."
        yield problem("multicast", found, remedy)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])


def check_buffers() -> Iterator[Finding]:
    """How large a receive buffer does the kernel grant?"""
    from pregao.net import BUFFER_BYTES, granted_buffer

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        yield judged_buffer(BUFFER_BYTES, granted_buffer(asking, BUFFER_BYTES))


def judged_buffer(wanted: int, granted: int) -> Finding:
    """Is a buffer large enough for bursts?"""
    if granted >= wanted:
        return well("receive buffers", f"{granted:,} bytes")
    return warning(
        "receive buffers",
        f"{granted:,} of {wanted:,} bytes: bursts of a live feed may be lost",
        f"Run `sysctl -w net.core.rmem_max={wanted}` as root, and put it into /etc/sysctl.d.",
    )


def check_ports() -> Iterator[Finding]:
    """Are the ports free on which `pregao exchange` listens by itself?"""
    from pregao.exchange.host import ExchangeSettings
    from pregao.net import Address

    settings = ExchangeSettings()
    wanted = [settings.primary, settings.backup, Address("127.0.0.1", settings.control_port)]
    yield judged_ports([each for each in wanted if each is not None])


def judged_ports(wanted: list[tuple[str, int]]) -> Finding:
    """Can these addresses be listened to?"""
    taken = []
    for host, port in wanted:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
            # As servers do it: a connection that just ended does not count.
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trying.bind((host, port))
                trying.listen(1)
            except OSError as error:
                taken.append(f"{host}:{port} ({error.strerror or error})")
    if not taken:
        return well("ports", f"{', '.join(str(port) for _, port in wanted)} are free")
    remedy = (
        "Stop what listens there (perhaps a `pregao exchange` that runs), or name others in the "
        "configuration of the exchange."
    )
    return warning("ports", f"taken: {', '.join(taken)}", remedy)
