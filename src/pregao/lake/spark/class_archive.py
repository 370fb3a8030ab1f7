"""Java's classes for Spark, archived by one start for all later ones, which take half the time.

Java can write down the classes that it loaded when it ends, and map them into memory at its next
start (class data sharing). The archive is good for one Java and one Spark: its folder is named by
a digest of both, and Java itself passes over an archive that does not fit or is cut short.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from pregao._kernel_cache import cache_folder

_ARCHIVE = "spark.jsa"
_MAKING = ".making"
_SETTLED_S = 10
"""An archive that nobody has written to for so long is whole, or will never be."""
_FORGOTTEN_S = 3600
_MOST_MAKING = 2
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_options(spark_version: str, jars: Path) -> str:
    """Options for Java that use the archive of this Spark, or let one be made when Java ends."""
    folder = _folder(spark_version, jars)
    if folder is None:
        return ""
    archive = folder / _ARCHIVE
    now = time.time()
    waiting = []
    with contextlib.suppress(OSError):
        for made in list(folder.glob(f"*{_MAKING}")):
            with contextlib.suppress(OSError):
                told = made.stat()
                age = now - told.st_mtime
                if age > _SETTLED_S and told.st_size and not archive.exists():
                    made.rename(archive)
                elif age > _FORGOTTEN_S or archive.exists():
                    made.unlink()
                else:
                    waiting.append(made)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if len(waiting) >= _MOST_MAKING:
        return ""
    making = folder / f"{os.getpid()}-{time.time_ns()}{_MAKING}"
    return f"-XX:ArchiveClassesAtExit={making} {_QUIET}"


def _folder(spark_version: str, jars: Path) -> Path | None:
    """Where the archive of this Java and this Spark is; None if none can be kept."""
    home = Path(os.environ.get("JAVA_HOME", ""))
    try:
        release = (home / "release").read_text(errors="replace")
        when = jars.stat().st_mtime_ns
    except OSError:
        return None
    told = f"{release}\n{home}\n{spark_version}\n{jars}\n{when}"
    folder = cache_folder(hashlib.sha256(told.encode()).hexdigest()[:32], "classes")
    # Java takes the option apart at spaces.
    return None if folder is None or " " in str(folder) else folder
