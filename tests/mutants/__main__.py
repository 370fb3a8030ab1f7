"""Plant small faults in the package and report which ones the tests notice.

Each mutant runs tests that call its function, quickest first, of its package's folder and of files
that name its module; a recording of the unchanged package shows them. Kernels run in the
interpreter. A time limit that expires is not a kill. Results accumulate in build/mutants;
tests/mutants/equivalent.toml gives the reason why no test can notice a mutant.

Neither cosmic-ray nor mutmut is used: both run one command for all mutants of a module, and know
neither compiled kernels nor which tests reach a function.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mutants.planting import Mutant, is_valid, mutants

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/pregao"
PACKAGES = (
    "book", "feed", "umdf", "legacy", "sbe", "fast", "entrypoint", "exchange/engine",
    "exchange/host", "lake/ingest", "lake/books", "lake/analytics",
)  # fmt: skip
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
MAX_FILES = 3
"""Number of test files whose tests a mutant runs at a time: a survivor runs those of the next."""
FILE_LIMIT_S = 60.0
"""Time limit of the recording of one test file."""
TESTS_S = 60.0
"""Recorded time of the tests that a mutant runs at a time."""
MUTANT_LIMIT_S = 150.0
"""Time limit of the tests that a mutant runs at a time."""
FINAL = ("killed", "survived", "not reached")


def run_tests(tests: list[str], variables: dict[str, str], limit_s: float) -> tuple[int, str]:
    """Run tests with the plugin; return pytest's exit code, or 124 after the time limit."""
    environment = os.environ | {
        "PYTHONPATH": f"{SOURCE.parent}{os.pathsep}{ROOT}",
        "PREGAO_FUZZ_CASES": "20",
        "PREGAO_CHANNEL_DAYS": "6",
        "PREGAO_LEGACY_EXAMPLES": "3",
        **variables,
    }
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.mutants.plugin", "--tb=no"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, "-m", "not spark and not browser", *tests],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = 124
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read()


def is_kernel(path: str) -> bool:
    """Whether a file of the package has compiled functions."""
    return "njit" in (SOURCE / path).read_text(encoding="utf-8")


def package_of(mutant: Mutant) -> str:
    """Return the package that a mutant is in."""
    return next(each for each in PACKAGES if mutant.path.startswith(f"{each}/"))


@functools.cache
def digest_of(package: str) -> bytes:
    """Return a digest of the modules of a package."""
    state = hashlib.sha256()
    for path in sorted((SOURCE / package).rglob("*.py")):
        state.update(path.read_bytes())
    return state.digest()


def candidates(mutant: Mutant) -> list[str]:
    """Return test files that may call the function of a mutant, the likeliest first.

    They are in the folder of its package, or name its module.
    """
    path = Path(mutant.path)
    module = f"pregao.{'.'.join(path.with_suffix('').parts)}".removesuffix(".__init__")
    package = package_of(mutant)
    function = mutant.function.rpartition(".")[2].strip("_")
    words = set(path.stem.strip("_").split("_"))
    found = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        named, text = test.relative_to(ROOT).as_posix(), test.read_text(encoding="utf-8")
        score = 4 * (module in text) + 3 * (function in text)
        score += len(words & set(test.stem.split("_")))
        if module in text or named.startswith(f"tests/{package}/"):
            found.append((-score, len(text), named))
    return [named for _, _, named in sorted(found)]


class Recordings:
    """Which tests of a file call which function, recorded once for each state of the code."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reach(self, mutant: Mutant, deadline: float) -> Iterator[list[tuple[float, str]] | None]:
        """Yield the tests that call the function of a mutant, of a few files at a time.

        Ends with None if there is no time to record more of them.
        """
        place = f"{mutant.path} {mutant.function}"
        kernels = is_kernel(mutant.path)
        found, files = [], 0
        for file in candidates(mutant):
            path = self._path(file, package_of(mutant), kernels=kernels)
            if not path.exists() and not self._record(file, path, kernels, deadline):
                yield None
                return
            calling = [
                (seconds, test)
                for test, seconds, functions in map(json.loads, path.read_text().splitlines())
                if place in functions
            ]
            found += calling
            files += bool(calling)
            if files == MAX_FILES:
                yield sorted(found)
                found, files = [], 0
        if found:
            yield sorted(found)

    def _path(self, file: str, package: str, *, kernels: bool) -> Path:
        state = hashlib.sha256((ROOT / file).read_bytes() + digest_of(package)).hexdigest()
        kind = "interpreted" if kernels else "compiled"
        return self._folder / f"{Path(file).stem}-{kind}-{state[:12]}.jsonl"

    def _record(self, file: str, path: Path, kernels: bool, deadline: float) -> bool:
        part = path.with_suffix(".part")
        part.write_bytes(b"")
        variables = {"PREGAO_REACH": str(part)} | ({"NUMBA_DISABLE_JIT": "1"} if kernels else {})
        limit = min(FILE_LIMIT_S, deadline - time.monotonic())
        if limit <= 0:
            return False
        code, output = run_tests([file], variables, limit)
        if code == 124 and limit < FILE_LIMIT_S:
            return False
        if code not in (0, 1, 5, 124):
            print(f"{file} cannot be recorded: {output[-300:].strip()}", flush=True)
        # What was recorded before the time limit is used.
        whole = [line for line in part.read_text().splitlines(keepends=True) if line[-1] == "\n"]
        part.write_text("".join(whole))
        part.rename(path)
        return True


def judge(mutant: Mutant, tests: list[tuple[float, str]], limit_s: float) -> tuple[str, str]:
    """Return whether tests notice a mutant, and the summary of pytest."""
    chosen, total = [], 0.0
    for seconds, test in tests:
        total += seconds
        if chosen and total > TESTS_S:
            break
        chosen.append(test)
    if not chosen:
        return "not reached", ""
    module = ".".join(("pregao", *Path(mutant.path).with_suffix("").parts))
    planted = mutant.planted((SOURCE / mutant.path).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        fault = Path(folder, "mutant.json")
        fault.write_text(
            json.dumps(
                {"module": module.removesuffix(".__init__"), "source": planted, "tests": chosen}
            ),
            encoding="utf-8",
        )
        variables = {"PREGAO_MUTANT": str(fault)}
        if is_kernel(mutant.path):
            variables["NUMBA_DISABLE_JIT"] = "1"
        files = sorted({test.partition("::")[0] for test in chosen})
        code, output = run_tests(["-x", *files], variables, limit_s)
    if code == 124:
        return "timeout", f"{len(chosen)} tests"
    failed = [
        line for line in output.splitlines()
        if line.startswith(("FAILED", "ERROR", "E   "))
    ]  # fmt: skip
    if code == 0:
        return "survived", f"{len(chosen)} of {len(tests)} tests"
    if code in (1, 2) or code < 0:
        return "killed", failed[0][:160] if failed else f"exit code {code}"
    return "error", output[-300:].strip()


def sample(seed: int, count: int, packages: Iterable[str] = PACKAGES) -> list[Mutant]:
    """Return mutants chosen by a seed: equally many of each package, of all kinds in turn."""
    packages = tuple(packages)
    chosen = []
    for number, package in enumerate(packages):
        draw = random.Random(f"mutants of {package} {seed}")
        wanted = count // len(packages) + (number < count % len(packages))
        kinds: dict[str, list[Mutant]] = defaultdict(list)
        for path in sorted((SOURCE / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            for each in mutants(path.relative_to(SOURCE).as_posix(), source):
                kinds[each.kind].append(each)
        order = sorted(kinds)
        draw.shuffle(order)
        found: list[Mutant] = []
        while len(found) < wanted and any(kinds.values()):
            kind = order[0]
            order = [*order[1:], kind]
            if kinds[kind]:
                each = kinds[kind].pop(draw.randrange(len(kinds[kind])))
                if is_valid(each, (SOURCE / each.path).read_text(encoding="utf-8")):
                    found.append(each)
        chosen += found
    return chosen


def equivalents() -> dict[str, str]:
    """Return the mutants that no test can notice, with the reason."""
    return tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))


def report(results: dict[str, dict[str, str]], equal: dict[str, str]) -> str:
    """Return the survivors and the totals."""
    outcomes = {
        name: "equivalent" if name in equal else each["outcome"] for name, each in results.items()
    }
    counts = Counter(outcomes.values())
    judged = sum(counts[outcome] for outcome in FINAL)
    lines = [
        f"{outcome}: {name}" for name, outcome in sorted(outcomes.items())
        if outcome not in ("killed", "equivalent")
    ]  # fmt: skip
    listed = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    score = f"{100 * counts['killed'] / judged:.1f} %" if judged else "none"
    lines.append(f"{len(results)} mutants: {listed or 'none'}.")
    lines.append(f"Killed of the {judged} that are killed, survived or not reached: {score}.")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    made = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--seed", type=int, default=0, help="Choose other mutants (default 0)")
    made.add_argument("--count", type=int, default=120, help="Number of mutants (default 120)")
    made.add_argument("--minutes", type=float, default=60, help="Time limit (default 60)")
    made.add_argument(
        "--package", action="append", choices=PACKAGES, metavar="PACKAGE", dest="packages",
        help=f"Only mutants of this package; may be repeated. One of {', '.join(PACKAGES)}",
    )  # fmt: skip
    made.add_argument("--match", default="", help="Only mutants whose name contains this text")
    made.add_argument("--again", action="store_true", help="Judge known mutants once more")
    made.add_argument("--list", action="store_true", help="List the mutants and run nothing")
    made.add_argument("--report", action="store_true", help="Report all results and run nothing")
    made.add_argument(
        "--results", type=Path, default=ROOT / "build/mutants/results.json", metavar="FILE",
        help="File in which results accumulate (default build/mutants/results.json)",
    )  # fmt: skip
    return made


def main(arguments: list[str] | None = None) -> int:
    """Judge the mutants of a seed; survivors are reported, and do not fail the command."""
    options = parser()
    chosen = options.parse_args(arguments)
    if chosen.count < 1:
        options.error(f"--count must be at least 1, was {chosen.count}.")
    if not chosen.minutes > 0:
        options.error(f"--minutes must be more than 0, was {chosen.minutes:g}.")
    results: dict[str, dict[str, str]] = {}
    if chosen.results.exists():
        try:
            results = json.loads(chosen.results.read_text(encoding="utf-8"))
        except ValueError as error:
            options.error(f"--results must be a file of results, {chosen.results}: {error}")
    equal = equivalents()
    if chosen.report:
        print(report(results, equal))
        return 0
    packages = [each for each in PACKAGES if each in (chosen.packages or PACKAGES)]
    found = sample(chosen.seed, chosen.count, packages)
    found = [each for each in found if chosen.match in each.name]
    if not found:
        options.error(f"No mutant of seed {chosen.seed} contains {chosen.match!r}: raise --count.")
    if chosen.list:
        print("\n".join(each.name for each in found))
        return 0
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    recordings = Recordings(chosen.results.parent)
    end = time.monotonic() + 60 * chosen.minutes
    own: dict[str, dict[str, str]] = {}
    for number, package in enumerate(packages):
        # Each package gets its share of the time that is left.
        now = time.monotonic()
        deadline = now + (end - now) / (len(packages) - number)
        for mutant in found:
            if package_of(mutant) != package:
                continue
            known = None if chosen.again else results.get(mutant.name)
            if known is None or known["outcome"] not in FINAL:
                if mutant.name in equal:
                    known = {"outcome": "equivalent"}
                elif time.monotonic() > deadline:
                    continue
                else:
                    outcome, detail = "not reached", ""
                    for tests in recordings.reach(mutant, deadline):
                        limit = min(MUTANT_LIMIT_S, deadline - time.monotonic())
                        if tests is None or limit <= 0:
                            outcome = "no time"
                            break
                        outcome, detail = judge(mutant, tests, limit)
                        if outcome == "timeout" and limit < MUTANT_LIMIT_S:
                            outcome = "no time"
                        if outcome != "survived":
                            break
                    if outcome == "no time":
                        continue
                    known = {"outcome": outcome, "detail": detail}
                results[mutant.name] = known
                part = chosen.results.with_suffix(".part")
                part.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
                part.replace(chosen.results)
            own[mutant.name] = known
            print(f"{known['outcome']:11} {mutant.name}", flush=True)
    if len(own) < len(found):
        print(f"No time for {len(found) - len(own)} of {len(found)} mutants.")
    print(f"\nThis run:\n{report(own, equal)}")
    print(f"\nAll runs:\n{report(results, equal)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
