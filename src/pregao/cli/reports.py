"""Reports of a command as files of JSON: the place is checked before the work begins."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pregao.errors import UsageError
from pregao.output_files import open_output, replace_file


def check_report(path: Path | None) -> None:
    """Refuse a report that could not be written when the work is done."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--report: {path} is a folder; name a file.")
    try:
        # Nothing is changed of a file that is there.
        there = os.path.lexists(path)
        if not path.is_symlink():
            open_output(path, append=True).close()
        if not there:
            path.unlink()
    except OSError as error:
        raise UsageError(f"--report: {path} cannot be written: {error.strerror}.") from None


def write_report(path: Path | None, data: Any) -> None:
    """Write a report, if one is wanted."""
    if path is None:
        return
    try:
        replace_file(path, (json.dumps(data, indent=1) + "\n").encode())
    except OSError as error:
        raise UsageError(
            f"The work is done, but --report {path} cannot be written: {error.strerror}."
        ) from None
