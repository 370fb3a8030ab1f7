"""A simulation run: traders, engine and publisher on a virtual clock, written as captures."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from pregao.clock import MILLISECOND, MINUTE
from pregao.errors import UsageError
from pregao.exchange.engine.schedule import default_schedule, load_schedule
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import Publisher
from pregao.exchange.simulation.apart import run_in_worker, worker_pays_off
from pregao.exchange.simulation.captures import prepare_folder
from pregao.exchange.simulation.day import plan_day
from pregao.exchange.simulation.instruments import choose_instruments
from pregao.exchange.simulation.publication import DayPublisher, OnProgress
from pregao.exchange.simulation.settings import SimulationSettings, moment_ns
from pregao.exchange.simulation.summary import SimulationSummary, describe, faults_of
from pregao.exchange.simulation.trading import DayTrading
from pregao.exchange.traders.profiles import load_profile

DEFAULT_INSTRUMENTS = 40
_SNAPSHOT_LOOPS = 40
"""Approximate number of snapshot and definition loops in a run."""
_LOOP_PACKETS_PER_SECOND = 1000
_MIN_PAUSE_NS = 20 * MILLISECOND
_MAX_PAUSE_NS = MINUTE


@contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector, which would traverse all resting orders repeatedly.

    Orders and events form no cycles: memory stays flat without it, and a run is 10% faster.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # Move the objects created meanwhile to the oldest generation: in the youngest one,
            # the next collection would traverse them all.
            gc.freeze()
            gc.enable()
            gc.unfreeze()


class Simulation:
    """One run: settings in, captures and their ground truth in a folder out."""

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings
        profile = load_profile(settings.profile)
        self.instruments = choose_instruments(
            profile, settings.instruments, settings.instruments_file, DEFAULT_INSTRUMENTS
        )
        schedule = (
            default_schedule(self.instruments)
            if settings.schedule_file is None
            else load_schedule(settings.schedule_file)
        )
        day = self.day = plan_day(
            schedule, self.instruments, settings.trade_date, settings.duration_ns
        )
        self.capture_from_ns = day.start_ns
        if settings.late_join is not None:
            span = (day.midnight_ns, day.start_ns, day.end_ns)
            self.capture_from_ns = moment_ns("--late-join", settings.late_join, *span)
        self.trading = DayTrading(settings, profile, self.instruments, day)
        pause = settings.duration_ns // _SNAPSHOT_LOOPS
        loops = LoopPace(_LOOP_PACKETS_PER_SECOND, min(max(pause, _MIN_PAUSE_NS), _MAX_PAUSE_NS))
        numbers = sorted({instrument.channel for instrument in self.instruments})
        self.publisher = Publisher(
            [ChannelEndpoints.numbered(number) for number in numbers],
            self.instruments,
            day.start_ns,
            schema_version=settings.schema_version,
            snapshot_pace=loops,
            definition_pace=loops,
            legacy=settings.legacy is not None,
            legacy_depth=None if settings.legacy is None else settings.legacy.market_depth,
        )

    def run(
        self, progress: OnProgress | None = None, *, worker: bool | None = None
    ) -> SimulationSummary:
        """Simulate the day and write captures and truth.

        With ``apart`` the market trades in a worker process, and ``trading`` of this process stays
        unchanged; the default is to do so where it is faster. The bytes are the same.
        """
        try:
            return self._run(progress, worker_pays_off(self.trading) if worker is None else worker)
        except OSError as error:
            where = error.filename or self.settings.out
            raise UsageError(f"{where}: cannot be written: {error.strerror}") from error

    def _run(self, progress: OnProgress | None, worker: bool) -> SimulationSummary:
        settings = self.settings
        folder = prepare_folder(settings.out, settings.force)
        arguments = (
            settings,
            self.publisher,
            self.instruments,
            self.capture_from_ns,
            folder,
            progress,
        )
        with DayPublisher(*arguments) as publication, _no_cycle_collection():
            if worker:
                totals = run_in_worker(self.trading, publication)
            else:
                totals = self.trading.run(publication)
        summary = describe(self, totals, publication)
        publication.truth.finish(faults_of(settings, publication.captures), summary.data)
        publication.progress(1.0)
        return summary
