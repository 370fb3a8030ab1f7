"""Install what was built into fresh environments outside the checkout, and use it there.

``python packaging/try_package.py dist`` takes every Python from 3.11 on that is on the PATH, or
those that are named after the folder: the wheel with nothing but the core, which must be small,
then the source distribution with the extra ``lake``. It needs the network, or a pip that has one
configured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = [f"python3.{minor}" for minor in range(11, 20)]
MAX_MB = 250
"""What the core and all that it needs may take on disk, without pip and what it brings."""
TOOLS = ("pip", "setuptools", "pkg_resources", "wheel", "_distutils_hack")
CORE = [
    ["simulate", "--messages", "5000", "--duration", "2m", "--output", "day"],
    ["info", "day/051_Incremental_A.pcap"],
    ["decode", "day/051_Incremental_A.pcap"],
    ["decode", "day/051_Incremental_A.pcap", "-o", "day.jsonl"],
]
LAKE = [
    ["ingest", "day", "--lake", "lake", "--engine", "local", "--quiet"],
    ["query", "SELECT count(*) AS trades FROM trades", "--lake", "lake"],
    ["audit", "--lake", "lake"],
]


def main(arguments: list[str]) -> int:
    """Try the package on every Python; 0 if all went well."""
    dist = Path(arguments[0] if arguments else "dist").resolve()
    pythons = arguments[1:] or [found for name in NAMES if (found := shutil.which(name))]
    wheel, source = next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))
    for python in pythons:
        if not _runs(python):
            print(f"{python} does not run: left out")
            continue
        with tempfile.TemporaryDirectory(prefix="pregao-package-") as made:
            _try(python, wheel, source, Path(made))
    return 0


def _runs(python: str) -> bool:
    done = subprocess.run([python, "-c", "import venv"], capture_output=True, check=False)
    return done.returncode == 0


def _try(python: str, wheel: Path, source: Path, folder: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PREGAO_CACHE_DIR": str(folder / "cache"),
    }

    def run(*command: str | Path) -> None:
        subprocess.run(
            list(map(str, command)),
            check=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
        )

    run(python, "-m", "venv", folder / "env")
    inside = folder / "env" / "bin"
    pip = [inside / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, wheel)
    packages = next((folder / "env" / "lib").glob("python*/site-packages"))
    size = _megabytes(packages)
    print(f"{python}: the core and what it needs take {size} MB", flush=True)
    if size > MAX_MB:
        raise SystemExit(f"{python}: the core takes {size} MB; it may take {MAX_MB}")
    for command in CORE:
        run(inside / "pregao", *command)
    run(*pip, "--force-reinstall", "--no-deps", source)
    run(*pip, f"{source}[lake]")
    for command in LAKE:
        run(inside / "pregao", *command)
    print(f"{python}: wheel and source distribution work", flush=True)


def _megabytes(packages: Path) -> int:
    """Return the size of installed packages with byte code, without an environment's own tools."""
    files = (each for each in packages.rglob("*") if each.is_file() and not each.is_symlink())
    sizes = (
        each.stat().st_size
        for each in files
        if not each.relative_to(packages).parts[0].startswith(TOOLS)
    )
    return sum(sizes) // 1_000_000


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
