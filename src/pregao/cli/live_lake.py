"""``pregao live --lake``: the recorder's captures go into a lake while they grow, exactly once.

A process of its own follows the captures: taking them in must not hold the feed up. The lake knows
how far each file was taken, so that nothing is lost or doubled whichever process is stopped or
killed, and whenever; what was never written is a gap, and told as one.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType

from pregao.errors import PregaoError, UsageError
from pregao.live import LiveConfig
from pregao.umdf.streams import Stream

_FINISH_S = 600.0


def spool_of(lake: str) -> Path:
    """Where the captures for a lake go unless the user says: beside it."""
    if "://" in lake:
        raise UsageError(f"{lake} is not on this machine: say with --spool where captures go.")
    path = Path(lake)
    return path.with_name(f"{path.name}-spool")


class LakeFollower:
    """The process that takes captures in; ``finish`` lets it take the rest, then it ends."""

    def __init__(self, spool: Path, lake: str, config: LiveConfig) -> None:
        # A new interpreter: this one has threads, and a copy of it would have none of them.
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        streams = tuple((str(line.address), line.stream.value) for line in config.lines)
        feeds = tuple(
            (str(line.address), line.feed)
            for line in config.lines
            if line.stream is Stream.INCREMENTAL
        )
        self._lake = lake
        self._process = context.Process(
            target=follow, args=(str(spool), lake, streams, feeds, self._stop), name="pregao-lake"
        )

    def __enter__(self) -> LakeFollower:
        self._process.start()
        return self

    def finish(self) -> None:
        """Take the rest in, and end."""
        self._stop.set()
        self._process.join(_FINISH_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        if kind is None and self._process.exitcode:
            raise PregaoError(
                f"Not everything was taken into {self._lake}; the captures are kept. Start again, "
                "or take them in with `pregao stream --once`."
            )


def follow(
    spool: str,
    lake: str,
    streams: tuple[tuple[str, str], ...],
    feeds: tuple[tuple[str, str], ...],
    stop: Event,
) -> None:
    """Take captures in until it is time to stop, or the process that records is gone."""
    from pregao.clock import SECOND
    from pregao.lake.ingest import Options
    from pregao.lake.source import RollingFiles
    from pregao.lake.streaming import StreamIngest, StreamPace, follow_here

    # An interrupt at the terminal goes to all of its processes; the recorder tells when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    files = RollingFiles(spool, 2 * SECOND)
    ingest = StreamIngest(files, lake, Options(streams=streams, feeds=feeds))
    pace = StreamPace(interval_ns=2 * SECOND)
    alive: Callable[[], bool] = lambda: parent is None or parent.is_alive()  # noqa: E731
    try:
        follow_here(ingest, pace, lambda _: None, lambda: stop.is_set() or not alive())
    except PregaoError as error:
        sys.stderr.write(f"pregao: {error}\n")
        raise SystemExit(2) from None
