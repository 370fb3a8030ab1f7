"""Runs the measurements, prints them side by side and writes bench/results.json."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from bench.measure import Row

SECTIONS = ["decoding", "market", "lake"]


def main() -> None:
    chosen = sys.argv[1:] or SECTIONS
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
    text = json.dumps({"machine": machine, "rows": [row.json() for row in rows]}, indent=1)
    results.write_text(text + "\n")
    print(f"\nwritten to {results.name}")


main()
