"""What holds for all tests: the same cases of properties each time, one folder to clear."""

import os
import shutil
import tempfile

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

_FOLDER = tempfile.mkdtemp(prefix="pregao-tests-")
os.environ["TMPDIR"] = tempfile.tempdir = _FOLDER

NEED_SPARK = frozenset({"spark", "cluster", "standalone_cluster", "connect_server"})
SLOWEST = (
    "test_lake_cluster_page",
    "test_lake_streaming_spark",
    "test_lake_analytics_late",
    "test_lake_streaming_kills",
    "test_lake_access_connect",
    "test_lake_documented_queries",
    "test_lake_analytics_session_stats",
    "test_lake_analytics_joined",
    "test_lake_views_engines",
    "test_lake_ingest_faults",
    "test_lake_drop",
    "test_lake_books_days",
    "test_lake_source_answers",
    "test_lake_cluster_standalone",
)
"""Files that are begun first, so that no process is left alone with one of them at the end."""


def pytest_collection_modifyitems(items):
    """Mark what starts Spark, and begin with what takes longest; the rest keeps its order."""
    for item in items:
        if NEED_SPARK.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("spark")
    rank = {name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_unconfigure():
    """Leave nothing behind: neither what tests made nor what their commands left."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
