"""JSON reports of commands; the output path is checked before the work starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pregao.errors import UsageError
from pregao.safe_io.output_files import open_output, replace_file


def check_report(path: Path | None) -> None:
    """Raise `UsageError` if the report could not be written at the end of the work."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--report: {path} is a folder; give the path of a file.")
    try:
        # Appending nothing leaves an existing file unchanged.
        existed = os.path.lexists(path)
        if not path.is_symlink():
            open_output(path, append=True).close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise UsageError(f"--report: {path} cannot be written: {error.strerror}.") from None


def write_report(path: Path | None, data: Any) -> None:
    """Write a report as JSON, if a path was given."""
    if path is None:
        return
    try:
        replace_file(path, (json.dumps(data, indent=1) + "\n").encode())
    except OSError as error:
        raise UsageError(
            f"The work is done, but --report {path} cannot be written: {error.strerror}."
        ) from None
