"""Java's classes for Spark, archived by one start for all later ones, which take half the time.

Java can write down the classes that it loaded when it ends, and map them into memory at its next
start (class data sharing). The archive is good for one Java and one Spark: its folder is named by
a digest of both, and Java itself passes over an archive that does not fit or is cut short. Where
a folder with files is on the class path Java keeps no archive: then none is asked for.
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
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -XX:+DisplayVMOutputToStderr"
"""Whatever Java says all the same is not among a command's data."""


def archive_options(spark_version: str, jars: Path) -> str:
    """Options for Java that use the archive of this Spark, or let one be made when Java ends."""
    folder = _folder(spark_version, jars)
    if folder is None or _folders_on_class_path():
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


def settings_folder() -> Path | None:
    """The folder of Spark's own settings, if the environment names one."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    home = os.environ.get("SPARK_HOME")
    return Path(home) / "conf" if home else None


def _folders_on_class_path() -> bool:
    """Whether Spark puts a folder with files on Java's class path: settings of it or of Hadoop."""
    if os.environ.get("SPARK_DIST_CLASSPATH"):
        return True
    hadoop = [os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    folders = [settings_folder(), *(Path(name) for name in hadoop if name)]
    return any(_has_files(folder) for folder in folders if folder is not None)


def _has_files(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


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
