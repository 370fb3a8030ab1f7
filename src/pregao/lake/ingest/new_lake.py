"""Creation of a lake while its first captures are read, and cleanup if they have no content."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from pregao.errors import NothingFoundError
from pregao.lake.ingest.tables import first_specs
from pregao.lake.store.lake import LakeStore


class LakeCreation:
    """Creates the tables of a new lake while its first captures are read."""

    def __init__(self, lake: LakeStore, pool: ThreadPoolExecutor) -> None:
        self._lake = lake
        self._pool = pool
        self._work: Future[None] | None = None

    def start(self) -> None:
        """Start creating the tables, once."""
        if self._work is None:
            self._lake.begin()
            self._work = self._pool.submit(self._lake.ensure_tables, first_specs())

    def finish(self) -> None:
        """Wait until the tables exist."""
        self.start()
        if self._work is not None:
            self._work.result()


@contextmanager
def remove_empty_lake(lake: LakeStore) -> Iterator[None]:
    """On NothingFoundError, clear a location that was empty before and still has no lake."""
    existed = lake.location.exists()
    empty = not existed or not lake.location.entries()
    try:
        yield
    except NothingFoundError:
        if empty and lake.location.exists() and not lake.exists():
            if not existed:
                lake.location.delete_folder()
            else:
                for entry in lake.location.entries():
                    if entry.is_folder:
                        entry.location.delete_folder()
                    else:
                        entry.location.delete()
        raise
