"""Run the benchmarks, print their rows and write bench/results.json.

`python -m bench lake --profile` prints the processor time of each part of the pipeline instead.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from bench.measure import Row

SECTIONS = [
    "decoding", "fast", "legacy", "market", "flow", "gateway", "feed", "live", "lake", "books",
    "page", "start", "years", "day",
]  # fmt: skip
_ON_REQUEST = "day"
"""Section that runs only if named: its day takes long to simulate."""


def main() -> None:
    if sys.argv[1:] == ["lake", "--profile"]:
        from bench import profile

        profile.run()
        return
    chosen = sys.argv[1:] or [section for section in SECTIONS if section != _ON_REQUEST]
    rows: list[Row] = []
    for section in chosen:
        print(f"\n{section}")
        for row in import_module(f"bench.{section}").run():
            print(f"  {row.what:<66} {row.value:>9.2f} {row.unit:<14} {row.target} {row.note}")
            sys.stdout.flush()
            rows.append(row)
    machine = {
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    results = Path(__file__).with_name("results.json")
    written = [row.json() for row in rows]
    if results.exists():  # sections that were not measured keep their rows
        before = json.loads(results.read_text())["rows"]
        written += [row for row in before if row["section"] not in chosen]
    written.sort(key=lambda row: SECTIONS.index(row["section"]))
    text = json.dumps({"machine": machine, "rows": written}, indent=1, ensure_ascii=False)
    results.write_text(text + "\n")
    print(f"\nwritten to {results.name}")


main()
