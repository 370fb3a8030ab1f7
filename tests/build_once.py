"""Folders that are dear to make: made by one process of a run of tests, and read by all."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp


def build_once(kind: str, settings: Mapping[str, object], make: Callable[[Path], object]) -> Path:
    """The folder of this kind and these settings, made unless a process has made it already.

    Two processes may make the same one concurrently; the later then uses the other's.
    """
    digest = hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:16]
    folder = Path(os.environ["PREGAO_TESTS_SHARED"], f"pregao-{kind}-{digest}")
    if not folder.exists():
        making = Path(mkdtemp(prefix="pregao-making-")) / kind
        make(making)
        try:
            making.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder
