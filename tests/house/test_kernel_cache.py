"""Kernels compile wherever Pregão is installed, also where nothing can be written."""

import os
import subprocess
import sys
from pathlib import Path

from pregao import _njit

PROGRAM = """
import numpy as np
from pregao.sbe import _kernels
sizes = np.zeros(1, np.int64)
_kernels.text_sizes(np.zeros(9, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64), True, sizes)
print(int(sizes[0]))
"""


def run(environment):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_cache_stands_where_the_user_says(tmp_path):
    result = run({"PREGAO_CACHE_DIR": str(tmp_path)})
    assert result.stdout.strip() == "0", result.stderr
    assert list((tmp_path / "numba").rglob("*.nbi"))


def test_without_a_writable_place_kernels_still_compile(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    nowhere = str(blocked / "cache")
    result = run(
        {
            "PREGAO_CACHE_DIR": nowhere,
            "NUMBA_CACHE_DIR": nowhere,
            "XDG_CACHE_HOME": nowhere,
            "TMPDIR": str(tmp_path),
        }
    )
    assert result.stdout.strip() == "0", result.stderr


def test_an_unwritable_place_is_passed_over(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(blocked))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "second"))
    assert _njit.cache_directory() == Path(tmp_path / "second")
