"""Run one fuzzer in a separate process: ``python -m tests.fuzzing.run NAME SEED CASES``.

It prints how many cases gave an answer and how many an error of ours. A case that gives a wrong
answer, another exception or a crash ends the process; its number is printed before it begins, so
that ``SEED`` and the number of the case repeat it.
"""

from __future__ import annotations

import faulthandler
import random
import sys
from importlib import import_module


def main(name: str, seed: str, cases: str, first: str = "0") -> None:
    """Run the cases of a fuzzer."""
    faulthandler.enable()
    fuzzer = import_module(f"tests.fuzzing.{name}")
    prepared = fuzzer.prepare()
    answered = 0
    for case in range(int(first), int(first) + int(cases)):
        sys.stderr.write(f"{name} {seed} {case}\n")
        answered += bool(fuzzer.run(random.Random(f"{name} {seed} {case}"), prepared))
    print(f"{answered} {int(cases) - answered}")


if __name__ == "__main__":
    main(*sys.argv[1:])
