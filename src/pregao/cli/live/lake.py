"""``pregao live --lake``: ingest the recorder's captures while they grow, exactly once.

A separate process follows the captures, so that the ingest does not delay the feed. The lake
records how far each file was ingested, so that nothing is lost or duplicated if either process is
stopped or killed at any time; packets that were never written are reported as a gap.
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
from pregao.live.config import LiveConfig
from pregao.umdf.streams import Stream

_FINISH_S = 600.0


def spool_of(lake: str) -> Path:
    """Return the default folder of the captures for a lake: next to the lake."""
    if "://" in lake:
        raise UsageError(f"{lake} is not a local folder: set the folder of captures with --spool.")
    path = Path(lake)
    return path.with_name(f"{path.name}-spool")


class LakeFollower:
    """The process that ingests captures; ``finish`` makes it ingest the rest and exit."""

    def __init__(self, spool: Path, lake: str, config: LiveConfig) -> None:
        # Spawn, not fork: a forked copy of this process would lack its threads.
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
            target=follow,
            args=(str(spool), lake, streams, feeds, config.schema_files, self._stop),
            name="pregao-lake",
        )

    def __enter__(self) -> LakeFollower:
        self._process.start()
        return self

    def finish(self) -> None:
        """Ingest the rest, then end the process."""
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
                f"Not everything was ingested into {self._lake}; the captures are kept. Restart "
                "the command, or ingest them with `pregao stream --once`."
            )


def follow(
    spool: str,
    lake: str,
    streams: tuple[tuple[str, str], ...],
    feeds: tuple[tuple[str, str], ...],
    schema_files: tuple[str, ...],
    stop: Event,
) -> None:
    """Ingest captures until `stop` is set or the recording process ends."""
    from pregao.clock import SECOND
    from pregao.lake.datasource.rolling_files import RollingFiles
    from pregao.lake.ingest.options import IngestOptions
    from pregao.lake.streaming.stream import StreamPace, follow_locally
    from pregao.lake.streaming.stream_ingest import StreamIngest

    # Ctrl-C reaches all processes of the terminal; the recorder decides when this one stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    files = RollingFiles(spool, 2 * SECOND)
    options = IngestOptions(streams=streams, feeds=feeds, schema_files=schema_files)
    ingest = StreamIngest(files, lake, options)
    pace = StreamPace(interval_ns=2 * SECOND)
    alive: Callable[[], bool] = lambda: parent is None or parent.is_alive()  # noqa: E731
    try:
        follow_locally(ingest, pace, lambda _: None, lambda: stop.is_set() or not alive())
    except PregaoError as error:
        sys.stderr.write(f"pregao: {error}\n")
        raise SystemExit(2) from None
