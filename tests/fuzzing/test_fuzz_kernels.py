"""Kernels never read outside of untrusted bytes, whatever the bytes are.

Each fuzzer runs in a separate process, so that a crash is a failure of its test. A small share
runs here; ``make fuzz`` runs more, with every access to an array checked (``NUMBA_BOUNDSCHECK``).
``PREGAO_FUZZ_CASES`` and ``PREGAO_FUZZ_SEED`` choose others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pregao._njit import load_u8, load_u64, njit, part, store_u64

ROOT = Path(__file__).parents[2]
CASES = {
    "captures": 60,
    "entrypoint_frames": 60,
    "fast_columns": 40,
    "flat_parquet": 300,
    "legacy_bulk": 60,
    "tcp_streams": 100,
}


@pytest.mark.parametrize("name", CASES)
def test_damaged_bytes_do_no_harm(name: str) -> None:
    cases = os.environ.get("PREGAO_FUZZ_CASES", str(CASES[name]))
    seed = os.environ.get("PREGAO_FUZZ_SEED", "1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzzing.run", name, seed, cases],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=3_600,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    answered, refused = map(int, done.stdout.split())
    # Neither is all of it so damaged that nothing is read, nor is nothing of it damaged.
    assert answered > 0
    assert refused > 0


CHECKED = """
import numpy as np
from tests.fuzzing.test_fuzz_kernels import eight_from, put_eight, one_at
data = np.zeros(10, np.uint8)
for work in (eight_from, put_eight, one_at):
    refused = []
    for position in (-1, 0, 2, 3, 9, 10):
        try:
            work(data, position)
        except IndexError:
            refused.append(position)
    print(*refused)
"""


@part
def inside(data, position):
    return load_u64(data, position)


@njit
def eight_from(data, position):
    return inside(data, position)


@njit
def put_eight(data, position):
    store_u64(data, position, np.uint64(1))


@njit
def one_at(data, position):
    return load_u8(data, position)


def test_loads_and_stores_are_checked_where_fuzzers_ask_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        cwd=ROOT,
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["-1 3 9 10", "-1 3 9 10", "-1 10"], done.stderr
