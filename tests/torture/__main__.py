"""Run seeds of the torture: ``python -m tests.torture --seed 17``.

A seed that fails prints the command that replays it, and a minimal list of faults.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.torture.faults import KINDS, LAKE_KINDS, Fault, draw_faults, read_faults, write_faults
from tests.torture.shrink import shrunk
from tests.torture.whole_market import STEPS, Outcome, run_seed

EVERY = 20
"""One seed of so many is also ingested into a lake."""
ALL_KINDS = 120
"""So many seeds must have had faults of every kind."""
ENOUGH_LAKES = 6
"""So many seeds in lakes must have had every fault of those."""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="First seed")
    parser.add_argument("--seeds", type=int, default=1, help="Number of consecutive seeds")
    parser.add_argument("--step", type=int, default=1, help="Run every Nth of them")
    parser.add_argument("--processes", type=int, default=1, help="Processes that share the seeds")
    parser.add_argument("--days", type=int, default=1, help="Trading days of each seed")
    parser.add_argument("--faults", type=Path, help="File with the faults, instead of drawing them")
    parser.add_argument("--lake", action="store_true", help="Ingest every seed into a lake")
    parser.add_argument("--failures", type=Path, help="File to which failing seeds are added")
    parser.add_argument("--quiet", action="store_true", help="Print only the totals")
    return parser.parse_args(arguments)


def faults_of(seed: int, *, days: int = 1, lake: bool = False) -> list[Fault]:
    """Return the faults of a seed."""
    return draw_faults(seed, STEPS * days, lake=lake)


def run(seed: int, faults: list[Fault], *, days: int = 1, lake: bool = False) -> Outcome:
    """Run a seed in a folder of its own."""
    # On a file system in memory if there is one: the journal syncs each turn.
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="torture-", dir=where) as folder:
        outcome = run_seed(seed, faults, Path(folder) / "market", days=days)
        if lake:
            from tests.torture.in_lake import check_lake_of

            check_lake_of(outcome, faults, Path(folder))
        outcome.captured.clear()
    return outcome


def failure(seed: int, faults: list[Fault], *, days: int, lake: bool) -> str:
    """Return why a seed fails; empty if it does not."""
    try:
        run(seed, faults, days=days, lake=lake)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error, limit=-4))
    return ""


def in_lake(seed: int, chosen: argparse.Namespace) -> bool:
    """Whether a seed is also ingested into a lake."""
    return chosen.lake or (chosen.seeds > 1 and seed % EVERY == 0)


def report_failure(seed: int, faults: list[Fault], arguments: argparse.Namespace) -> None:
    """Print how to replay a failing seed, with as few faults as possible."""
    lake = in_lake(seed, arguments)
    chosen = {"days": arguments.days, "lake": lake}
    why = failure(seed, faults, **chosen)
    print(f"seed {seed} FAILED\n{why}", flush=True)
    minimal = shrunk(faults, lambda some: bool(failure(seed, some, **chosen)))
    path = Path(tempfile.gettempdir()) / f"torture-{seed}.json"
    write_faults(path, minimal)
    options = f"{' --lake' if lake else ''}{f' --days {arguments.days}' * (arguments.days > 1)}"
    print(f"Minimal faults, in {path}:")
    for fault in minimal:
        print(f"  {fault}")
    print(f"Replay: python -m tests.torture --seed {seed}{options} --faults {path}", flush=True)
    if arguments.failures is not None:
        with arguments.failures.open("a", encoding="utf-8") as file:
            file.write(f"{seed}\n")


def share(chosen: argparse.Namespace) -> int:
    """Run the seeds in several processes; return 1 if one of them failed."""
    command = [sys.executable, "-m", "tests.torture", "--days", str(chosen.days)]
    command += ["--step", str(chosen.step * chosen.processes)]
    command += ["--quiet"] * chosen.quiet + ["--lake"] * chosen.lake
    if chosen.failures is not None:
        command += ["--failures", str(chosen.failures)]
    running = []
    for number in range(chosen.processes):
        first = chosen.seed + number * chosen.step
        count = chosen.seeds - number * chosen.step
        running.append(subprocess.Popen([*command, "--seed", str(first), "--seeds", str(count)]))
    return max(process.wait() for process in running)


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; return 1 if one failed."""
    chosen = parse(arguments)
    if chosen.processes > 1:
        return share(chosen)
    logging.disable(logging.CRITICAL)
    injected: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    began = time.process_time()
    for seed in range(chosen.seed, chosen.seed + chosen.seeds, chosen.step):
        lake = in_lake(seed, chosen)
        faults = faults_of(seed, days=chosen.days, lake=lake)
        if chosen.faults is not None:
            faults = read_faults(chosen.faults)
        try:
            outcome = run(seed, faults, days=chosen.days, lake=lake)
        except KeyboardInterrupt:
            raise
        except BaseException:
            totals["failed"] += 1
            report_failure(seed, faults, chosen)
            continue
        injected += outcome.injected
        totals["seeds"] += 1
        totals["in lakes"] += lake
        totals["requests"] += outcome.requests
        totals["reports"] += outcome.reports
        totals["trades"] += outcome.trades
        totals["packets"] += outcome.packets
        totals["books compared"] += outcome.compared["compared"]
        if not chosen.quiet:
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.injected.items()))
            print(
                f"seed {seed}: {outcome.requests} requests, {outcome.reports} reports, "
                f"{outcome.trades} trades, {outcome.packets} packets in "
                f"{outcome.virtual_s:.0f} s; {kinds or 'no faults'}; digest {outcome.digest[:16]}",
                flush=True,
            )
    missing = {*KINDS, *(LAKE_KINDS if totals["in lakes"] >= ENOUGH_LAKES else ())}
    missing -= injected.keys()
    if totals["seeds"] * chosen.days >= ALL_KINDS and chosen.faults is None and missing:
        print(f"No seed injected: {', '.join(sorted(missing))}")
        totals["failed"] += 1
    if chosen.seeds > 1:
        seconds = time.process_time() - began
        print(", ".join(f"{count:,} {name}" for name, count in totals.items()))
        print("Faults: " + ", ".join(f"{kind} {n:,}" for kind, n in sorted(injected.items())))
        each = seconds / max(1, totals["seeds"])
        print(f"Processor time: {seconds:.0f} s, {each:.2f} s per seed")
    return int(totals["failed"] > 0)


if __name__ == "__main__":
    gc.freeze()
    sys.exit(main())
