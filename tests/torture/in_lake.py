"""The captures of a seed in a lake: its books, trades and bars are the exchange's.

The captures are those of the lossy lines. Tasks fail and are repeated, writes fail, and the process
ends between two steps of a commit; then the same command runs again.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any
from unittest.mock import patch

from pregao.book.state import State
from pregao.capture.writer import PcapWriter, UdpFramer
from pregao.clock import SECOND
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.lake.analytics.run import analyse
from pregao.lake.books.book_at import open_books
from pregao.lake.books.build import build_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.execution.runner import SerialRunner
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage import delta, parquet
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_log import LocalLog
from tests.entrypoint.raw_peer import START
from tests.torture.disk import KilledError
from tests.torture.faults import Fault
from tests.torture.followers import CLAIMS, content
from tests.torture.whole_market import DAY, Outcome

MOMENTS = 12
_ENDPOINTS = {
    "A": "incremental_a", "B": "incremental_b", "snapshot": "snapshot", "definition": "definition",
}  # fmt: skip


class RepeatingRunner(SerialRunner):
    """Runs some tasks twice, as if the first attempt's worker had died before or after it ended."""

    def __init__(self, faults: list[Fault], injected: Counter[str]) -> None:
        super().__init__()
        self._faults = {each.values["call"] % 3: each.kind for each in faults}
        self._injected = injected
        self._tasks = 0

    def run(self, job: Any, tasks: Any, advanced: Any = lambda size, messages: None) -> list[Any]:
        """Run the tasks and return their results, in order."""
        results = []
        for task in tasks:
            self._tasks += 1
            kind = self._faults.get(self._tasks % 3)
            if kind == "task failed":
                with _failing(1, OSError(28, "No space left on device"), self._injected, kind):
                    _interrupted(lambda: SerialRunner().run(job, [task]))  # noqa: B023
            elif kind == "task duplicated":
                self._injected[kind] += 1
                super().run(job, [task])
            results += super().run(job, [task])
        return results


@contextmanager
def _failing(call: int, error: BaseException, injected: Counter[str], kind: str):
    """Let the call of that number, of those that write to a lake, raise an error.

    Only calls of this thread count: when those of others happen differs from run to run.
    """
    left, thread = [call], get_ident()

    def guarded(function: Any) -> Any:
        def wrapped(*arguments: Any, **named: Any) -> Any:
            left[0] -= get_ident() == thread
            if left[0] == 0 and get_ident() == thread:
                injected[kind] += 1
                raise error
            return function(*arguments, **named)

        return wrapped

    with (
        patch.object(Location, "write_bytes", guarded(Location.write_bytes)),
        patch.object(LocalLog, "commit", guarded(LocalLog.commit)),
        patch.object(delta, "commit_changes", guarded(delta.commit_changes)),
        patch.object(parquet, "table_writer", guarded(parquet.table_writer)),
    ):
        yield


def write_captures(outcome: Outcome, folder: Path, *, legacy: bool) -> list[str]:
    """Write what arrived on each line of a feed to a capture."""
    folder.mkdir()
    endpoints = ChannelEndpoints.numbered(51, legacy=legacy)
    arrivals: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
    for when, name, payload in outcome.captured:
        line, _, stream = name.rpartition(" ")
        if line.startswith("legacy") is not legacy or line == "C":
            continue
        line = line.removeprefix("legacy ")
        if line == "loops":
            line = stream
        arrivals.setdefault((line, _ENDPOINTS[line]), []).append((when, payload))
    paths = []
    for (line, attribute), packets in sorted(arrivals.items()):
        endpoint = getattr(endpoints, attribute)
        name = {"A": "Incremental_A", "B": "Incremental_B", "snapshot": "Snapshot",
                "definition": "InstrumentDefinition"}[line]  # fmt: skip
        path = folder / f"051_{'Legacy_' if legacy else ''}{name}.pcap"
        framer = UdpFramer("192.0.2.11", 20_000, endpoint.address, endpoint.port)
        writer = PcapWriter(path)
        for when, payload in packets:
            writer.write(when, framer.frame(payload))
        writer.close()
        paths.append(str(path))
    return paths


def check_lake_of(outcome: Outcome, faults: list[Fault], folder: Path) -> None:
    """Ingest the captures of both feeds, build everything, and compare it with the exchange."""
    kinds = {each.kind for each in faults}
    digest = hashlib.sha256(outcome.digest.encode())
    for legacy in (False, True):
        if legacy and "site reset" in kinds:
            continue  # two numberings in one lake are compared by other tests
        name = "legacy" if legacy else "binary"
        paths = write_captures(outcome, folder / name, legacy=legacy)
        lake = _built(outcome, faults, folder / f"{name} lake", paths)
        _check_rows(outcome, kinds, lake, digest)
        _check_books(outcome, kinds, lake, legacy=legacy)
    outcome.digest = digest.hexdigest()


def _built(outcome: Outcome, faults: list[Fault], folder: Path, paths: list[str]) -> LakeStore:
    """Ingest captures, and build books and analytics; repeat what a fault interrupted."""
    runner = RepeatingRunner([each for each in faults if each.kind.startswith("task")],
                             outcome.injected)  # fmt: skip
    location = LakeStore(folder).location
    steps = (
        lambda: ingest(paths, location, runner=runner),
        lambda: build_books(location, runner=runner),
        lambda: analyse(LakeStore(location), runner, tables=["trades", "bars"]),
    )
    for step in steps:
        for fault in faults:
            if fault.kind == "lake disk full":
                error: BaseException = OSError(28, "No space left on device")
            elif fault.kind == "lake commit killed":
                error = KilledError(fault.kind)
            else:
                continue
            with _failing(fault.values["call"], error, outcome.injected, fault.kind):
                _interrupted(step)
        step()
    return LakeStore(location)


def _interrupted(step: Any) -> None:
    """Run a step that may be killed, or find no space on the disk."""
    try:
        step()
    except KilledError:
        pass
    except Exception as error:
        if "No space" not in str(error):
            raise


def _rows(lake: LakeStore, table: str) -> list[dict[str, Any]]:
    return lake.delta(table).to_pyarrow_table().to_pylist()


def _check_rows(outcome: Outcome, kinds: set[str], lake: LakeStore, digest: Any) -> None:
    """Tables are consistent; trades are the exchange's, and the volume of bars is theirs."""
    assert check_lake(lake).faults == []
    tables = set(lake.table_names())
    rejected = _rows(lake, "rejects") if "rejects" in tables else []
    assert "torn packet" in kinds or not rejected, rejected[:3]
    published: dict[tuple[int, int], tuple[Any, Any]] = {}
    for security_id, trade_id, size, price in outcome.published_trades:
        published[security_id, trade_id] = size, price
    found = {}
    for row in _rows(lake, "trades"):
        key = row["security_id"], row["trade_id"]
        assert key not in found, key
        found[key] = row["size"], int(row["price"].scaleb(4))
    gaps = _rows(lake, "gaps") if "gaps" in tables else []
    assert all(published[key] == value for key, value in found.items())
    if not gaps and "torn packet" not in kinds:
        assert found == published
    volumes: Counter[int] = Counter()
    for (security_id, _), (size, _) in found.items():
        volumes[security_id] += size
    bars: Counter[tuple[int, str]] = Counter()
    for row in _rows(lake, "bars"):
        bars[row["security_id"], row["interval"]] += row["volume"]
    assert bars
    for (security_id, _), volume in bars.items():
        assert volume == volumes[security_id]
    for key in sorted(found):
        digest.update(repr((key, found[key])).encode())


def _check_books(outcome: Outcome, kinds: set[str], lake: LakeStore, *, legacy: bool) -> None:
    """The last books are the exchange's; those called valid at other times are too."""
    draw = random.Random(outcome.seed)
    truth = outcome.truth
    catalog = FileCatalog(lake)
    for security_id in truth.security_ids:
        books = open_books(catalog, str(security_id), DAY)
        last = books.at(None).book
        assert last.state in CLAIMS, (legacy, security_id, last.state)
        assert content(last) == truth.last(security_id), (legacy, security_id)
        if "clock step" in kinds:
            continue  # sending times went back or jumped
        span = int(outcome.virtual_s * SECOND)
        times = sorted(START + draw.randrange(span) for _ in range(MOMENTS))
        for at_ns, moment in zip(times, books.series(times), strict=True):
            if moment.book.state not in (State.VALID, State.EMPTY) or moment.data_ends_ns:
                continue
            expected = truth.at_time(security_id, at_ns)
            assert content(moment.book) == expected, (legacy, security_id, at_ns - START)
            outcome.compared["in lakes"] += 1
