"""Compare two commits: `python -m bench.compare BASE [ROW …]` prints the rates of both.

Each of the twelve rows of `bench.rows` runs in its own process, alternating between a checkout of
BASE and this one, so that changes of the machine's speed affect both. The best of several runs
counts; a row passes if this checkout reaches 0.95 of BASE.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.rows import ROWS

ROOT = Path(__file__).parents[1]
RUNS = int(os.environ.get("PREGAO_COMPARE_RUNS", "5"))
PASSES = 0.95


def measured(checkout: Path, row: str) -> float:
    """Run one row on a checkout, with its own `bench.rows` if it has one."""
    bench = checkout if (checkout / "bench" / "rows.py").exists() else ROOT
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{bench}"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.rows", row],
        cwd=bench, env=environment, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("rate "))
    return float(line.split()[1])


def main() -> None:
    base, *names = sys.argv[1:]
    rows = [row for row in ROWS if not names or any(name in row for name in names)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "base"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), checkout], check=True)
        subprocess.run(["git", "-C", checkout, "checkout", "--quiet", base], check=True)
        for row in rows:
            old = new = 0.0
            for run in range(RUNS):
                pair = (checkout, ROOT) if run % 2 else (ROOT, checkout)
                for each in pair:
                    rate = measured(each, row)
                    old, new = (max(old, rate), new) if each is checkout else (old, max(new, rate))
            ratio = new / old
            failed += ratio < PASSES
            verdict = "" if ratio >= PASSES else f"below {PASSES}"
            print(f"  {row:<46} {old:>14,.1f} {new:>14,.1f} {ratio:>6.3f} {verdict}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
