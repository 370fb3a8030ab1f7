"""Trading in a worker process: the same bytes, the same errors, and nothing left over."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest

from pregao.clock import SECOND
from pregao.errors import PregaoError, UsageError
from pregao.exchange.engine.model.events import MarketEvent, SequenceReset
from pregao.exchange.simulation import worker_process
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import LegacyDepth, SimulationSettings, parse_reset
from pregao.exchange.simulation.simulation import DayPublisher, Simulation
from pregao.exchange.traders.market_operations import MarketOperations

NOT_EVEN = {
    "A": FaultRates(loss=0.05),
    "B": FaultRates(loss=0.02, reorder=0.02),
    "snapshot": FaultRates(duplicate=0.1),
    "definition": FaultRates(),
}


def simulation(out: Path, profile: str = "equities", **changes: Any) -> Simulation:
    chosen: dict[str, Any] = {"duration_ns": 3 * SECOND, "rate": 250.0, "instruments": 8}
    return Simulation(SimulationSettings(profile=profile, out=out, **(chosen | changes)))


def files(out: Path) -> dict[str, str]:
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were started."""
    found: list[int] = []
    fork = os.fork

    def noted() -> int:
        found.append(process := fork())
        return process

    monkeypatch.setattr(os, "fork", noted)
    return found


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("profile", "changes"),
    [
        ("equities", {"seed": 7, "faults": NOT_EVEN, "resets": (parse_reset("sequence@0.5"),)}),
        ("derivatives", {"schema_version": 8}),
        ("stress", {"legacy": LegacyDepth.PRICES, "instruments": None}),
        ("equities", {"messages": 900, "rate": None}),
    ],
)
def test_the_bytes_are_those_of_one_process(tmp_path, started, profile, changes):
    progress: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    for own in (True, False):
        run = simulation(tmp_path / str(own), profile, **changes).run
        run(lambda done, messages, own=own: progress[own].append((done, messages)), worker=own)
    assert files(tmp_path / "True") == files(tmp_path / "False")
    assert progress[True] == progress[False]
    assert len(started) == 1
    assert has_ended(started[0])


def test_an_error_of_the_market_comes_through_unchanged(tmp_path, monkeypatch, started):
    def refuse(_operations: MarketOperations) -> None:
        raise UsageError("the market cannot close")

    monkeypatch.setattr(MarketOperations, "closing", refuse)
    with pytest.raises(UsageError) as caught:
        simulation(tmp_path / "day").run(worker=True)
    assert str(caught.value) == "the market cannot close"
    assert "in refuse" in "".join(caught.value.__notes__)
    assert has_ended(started[0])


def test_an_error_that_cannot_be_sent_is_reported_with_its_location(tmp_path, monkeypatch):
    class UnknownElsewhereError(Exception):
        pass

    def fail(_operations: MarketOperations) -> None:
        raise UnknownElsewhereError("something odd")

    monkeypatch.setattr(MarketOperations, "closing", fail)
    with pytest.raises(RuntimeError, match="something odd"):
        simulation(tmp_path / "day").run(worker=True)


def test_a_process_that_is_killed_is_a_one_line_error(tmp_path, monkeypatch):
    def die(_operations: MarketOperations) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(MarketOperations, "closing", die)
    with pytest.raises(PregaoError, match="worker process of the simulation was killed"):
        simulation(tmp_path / "day").run(worker=True)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), UsageError),
    ],
)
def test_trading_ends_where_publishing_does(tmp_path, monkeypatch, started, error, raised):
    def fail(_publication: DayPublisher, _done: float) -> None:
        raise error

    monkeypatch.setattr(DayPublisher, "progress", fail)
    with pytest.raises(raised):
        simulation(tmp_path / "day").run(worker=True)
    assert has_ended(started[0])


def test_only_publishers_are_interrupted(tmp_path, monkeypatch):
    """Ctrl-C reaches both processes: the trading one continues until it is ended."""
    closing = MarketOperations.closing

    def interrupted(operations: MarketOperations) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return closing(operations)

    run = simulation(tmp_path / "day")
    monkeypatch.setattr(MarketOperations, "closing", interrupted)
    assert run.run(worker=True).messages > 500


def test_where_no_process_can_be_started_the_day_passes_in_this_one(tmp_path, monkeypatch):
    def refused() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    simulation(tmp_path / "local").run(worker=False)
    monkeypatch.setattr(os, "fork", refused)
    simulation(tmp_path / "refused").run(worker=True)
    assert files(tmp_path / "refused") == files(tmp_path / "local")


def test_a_worker_process_is_for_long_runs_on_more_than_one_core(tmp_path, monkeypatch):
    small, large = (simulation(tmp_path, rate=rate).trading for rate in (250.0, 250_000.0))
    for cores in ({0, 3}, {3}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores)
        assert not worker_process.worker_pays_off(small)
        assert worker_process.worker_pays_off(large) == (len(cores) > 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(worker_process.sys, "platform", "darwin")
    assert not worker_process.worker_pays_off(large)


def test_trading_ends_when_the_last_listener_leaves():
    event_reader, event_writer = os.pipe()
    answered, answers = os.pipe()
    with os.fdopen(event_writer, "wb") as stream, os.fdopen(answered, "rb") as reading:
        publisher = worker_process._EventSender(stream, reading)
        os.close(answers)
        with pytest.raises(BrokenPipeError):
            publisher.messages()
        with os.fdopen(event_reader, "rb") as listening:
            assert pickle.load(listening) == ([], "messages", ())
        publisher.publish([MarketEvent([SequenceReset(51)])], 1)
        with pytest.raises(BrokenPipeError):
            publisher.progress(0.5)
        with pytest.raises(BrokenPipeError):
            stream.close()
