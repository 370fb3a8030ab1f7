"""Archive of Java's classes for Spark: one start writes it, later ones take half the time.

Java can archive the classes that it loaded when it exits, and map them into memory at its next
start (class data sharing). The archive is valid for one Java and one Spark: its folder is named by
a digest of both, and Java itself ignores an archive that does not match or is truncated. With a
folder of files on the class path Java cannot archive: then none is requested.
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
"""An archive not written to for this long is complete, or will never be."""
_FORGOTTEN_S = 3600
_MAX_WRITERS = 2
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -XX:+DisplayVMOutputToStderr"
"""Keeps Java's remaining output out of a command's data."""


def archive_options(spark_version: str, jars: Path) -> str:
    """Return Java options that use the archive of this Spark, or write one when Java exits."""
    folder = _folder(spark_version, jars)
    if folder is None or _folders_on_class_path():
        return ""
    archive = folder / _ARCHIVE
    now = time.time()
    waiting = []
    with contextlib.suppress(OSError):
        for candidate in list(folder.glob(f"*{_MAKING}")):
            with contextlib.suppress(OSError):
                status = candidate.stat()
                age = now - status.st_mtime
                if age > _SETTLED_S and status.st_size and not archive.exists():
                    candidate.rename(archive)
                elif age > _FORGOTTEN_S or archive.exists():
                    candidate.unlink()
                else:
                    waiting.append(candidate)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if len(waiting) >= _MAX_WRITERS:
        return ""
    making = folder / f"{os.getpid()}-{time.time_ns()}{_MAKING}"
    return f"-XX:ArchiveClassesAtExit={making} {_QUIET}"


def settings_folder() -> Path | None:
    """Return the folder of Spark's own settings, if the environment names one."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder)
    home = os.environ.get("SPARK_HOME")
    return Path(home) / "conf" if home else None


def _folders_on_class_path() -> bool:
    """Whether Spark puts a folder with files on Java's class path: its settings or Hadoop's."""
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
    """Return the folder of the archive for this Java and Spark; None if it cannot be stored."""
    home = Path(os.environ.get("JAVA_HOME", ""))
    try:
        release = (home / "release").read_text(errors="replace")
        when = jars.stat().st_mtime_ns
    except OSError:
        return None
    key = f"{release}\n{home}\n{spark_version}\n{jars}\n{when}"
    folder = cache_folder(hashlib.sha256(key.encode()).hexdigest()[:32], "classes")
    # Java splits the option at spaces.
    return None if folder is None or " " in str(folder) else folder
