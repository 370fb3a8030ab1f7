"""Setup of all tests: reproducible property cases, one folder to clear."""

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings

# A machine that is busy is not a mistake of ours: no test has a deadline.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A process has one command to run, and a process of tests some thousand: what they understand is
# made of their signatures once, which takes twenty times as long as most of them run.
typer.main.get_command = functools.cache(typer.main.get_command)

_FOLDER = tempfile.mkdtemp(prefix="pregao-tests-")
os.environ["TMPDIR"] = tempfile.tempdir = _FOLDER
# What a user set for all commands is not for tests.
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = _FOLDER
for _set in ("PREGAO_LAKE", "PREGAO_TZ", "PREGAO_CONTROL_TOKEN"):
    os.environ.pop(_set, None)
# A run on a new machine compiles the kernels; no command's output depends on it.
os.environ["PREGAO_COMPILE_NOTICE"] = "0"
# The tests themselves are half a million objects, which stay: garbage is not looked for among them,
# and less often.
gc.disable()
gc.set_threshold(10_000, 20, 50)
# A run in the background of a shell ignores interrupts, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests start some hundred processes: modules are compiled for the first of them alone.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What is dear to make is made once for all processes of a run, in the folder of the first.
os.environ.setdefault("PREGAO_TESTS_SHARED", _FOLDER)
# Every Spark of the tests, those of commands, servers and clusters too, is set for days of some
# thousand messages: compiling a plan, or the Java that runs it, takes many times longer than
# running it as it is. Set it to nothing to test with Spark's own settings.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    f'{_QUICK_JAVA} "-Dspark.executor.defaultJavaOptions={_QUICK_JAVA}"'
    " -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
    " -Dspark.sql.adaptive.enabled=false -Dspark.sql.shuffle.partitions=4",
)

NEED_SPARK = frozenset({"spark", "cluster", "standalone_cluster", "connect_server"})
SLOWEST = (
    "test_docs_samples",
    "test_lake_cluster_page",
    "test_lake_cluster_standalone",
    "test_web_browser",
    "test_lake_access_connect",
    "test_lake_datasource_results",
    "test_lake_drop",
    "test_lake_books_levels",
    "test_lake_streaming_kills",
    "test_lake_exports",
    "test_lake_books_days",
    "test_sbe_agreement",
    "test_lake_books_build",
    "test_lake_ingest",
    "test_lake_ingest_faults",
    "test_feed_channel_days",
    "test_lake_books_series",
    "test_lake_access_connector",
    "test_lake_books_unconfirmed",
    "test_lake_ingest_other_locations",
    "test_lake_streaming_ingest",
    "test_api_book",
    "test_feed_fastpath",
    "test_extras",
    "test_without_numba",
    "test_live_follow",
    "test_feed_bulk_and_plain",
    "test_kernel_cache",
    "test_cli_messages",
    "test_cli_books",
    "test_lake_books_lookup",
    "test_lake_books_legacy",
    "test_fast_properties",
    "test_lake_datasource_rows",
    "test_lake_runners",
    "test_publisher_legacy",
    "test_lake_ingest_odd_packets",
    "test_lake_ingest_protocols",
    "test_lake_ingest_entrypoint",
    "test_live_lake",
    "test_lake_class_archive",
    "test_host_restart",
    "test_lake_access_examples",
    "test_lake_ingest_empty",
    "test_lake_streaming_command",
    "test_live_command",
)
"""Files that are begun first, so that no process is left alone with one of them at the end.

Those of the Spark session are begun before them all, by one process.
"""

ON_SPARK = frozenset(
    {
        "test_lake_access_boundaries",
        "test_lake_access_commands",
        "test_lake_access_session",
        "test_lake_access_spark",
        "test_lake_analytics_auctions",
        "test_lake_analytics_clocks",
        "test_lake_analytics_examples",
        "test_lake_analytics_local",
        "test_lake_analytics_joined",
        "test_lake_analytics_late",
        "test_lake_analytics_latency",
        "test_lake_analytics_legacy",
        "test_lake_analytics_orders",
        "test_lake_analytics_run",
        "test_lake_analytics_session_stats",
        "test_lake_demo",
        "test_lake_documented_queries",
        "test_lake_fast_parquet_spark",
        "test_lake_s3_store",
        "test_lake_schema_version",
        "test_lake_datasource_spark",
        "test_lake_sql_engines",
        "test_lake_streaming_spark",
        "test_lake_views_engines",
        "test_lake_views_queries",
    }
)
"""Files that use the one Spark session: it is started, and Java warmed up, in one process."""

TOGETHER = {
    "test_lake_cluster_standalone": "test_lake_cluster_page",
    "test_lake_datasource_results": "test_lake_access_connect",
    "test_lake_runners": "test_lake_access_connect",
    # They begin by compiling the kernels of books, if no run has done so yet; the guide comes last,
    # because compilation takes minutes under a profiler.
    "test_cli_books": "test_cli_messages",
    "test_guide": "test_cli_messages",
    **dict.fromkeys(ON_SPARK, "spark"),
}
"""Files that use the same Spark, cluster or server: one process runs them, and starts it once."""

FOLDERS_TOGETHER = ("api", "web")
"""Folders whose files all read one lake."""

SLOW = ON_SPARK | {
    "test_api_book",
    "test_api_examples",
    "test_api_lake",
    "test_api_notebook",
    "test_api_page",
    "test_book_replay",
    "test_capture_bulk",
    "test_capture_layers",
    "test_capture_sources",
    "test_capture_split",
    "test_cli_bad_input",
    "test_cli_books",
    "test_cli_control_characters",
    "test_cli_decode",
    "test_cli_entrypoint_captures",
    "test_cli_ep",
    "test_cli_hex",
    "test_cli_hostile_packets",
    "test_cli_lake",
    "test_cli_legacy",
    "test_cli_main",
    "test_cli_plot",
    "test_cli_schema",
    "test_cli_messages",
    "test_cli_simulate",
    "test_cli_style",
    "test_cli_symbols",
    "test_cli_texts",
    "test_cli_ui",
    "test_docs_site",
    "test_exchange_whole_market",
    "test_extras",
    "test_fast_agreement",
    "test_fast_budgets",
    "test_fast_properties",
    "test_feed_channel_days",
    "test_feed_hostile",
    "test_feed_fastpath",
    "test_feed_simulated_day",
    "test_feed_bulk_and_plain",
    "test_fuzz_kernels",
    "test_guide",
    "test_host_restart",
    "test_host_sessions",
    "test_hostile_settings",
    "test_kernel_cache",
    "test_lake_access_connect",
    "test_lake_access_connector",
    "test_lake_access_examples",
    "test_lake_analytics_outdated",
    "test_lake_books_build",
    "test_lake_books_days",
    "test_lake_books_legacy",
    "test_lake_books_levels",
    "test_lake_books_lookup",
    "test_lake_books_series",
    "test_lake_books_unconfirmed",
    "test_lake_cluster_page",
    "test_lake_cluster_standalone",
    "test_lake_commits_exactly_once",
    "test_lake_drop",
    "test_lake_exports",
    "test_lake_ingest",
    "test_lake_ingest_other_locations",
    "test_lake_ingest_entrypoint",
    "test_lake_ingest_faults",
    "test_lake_ingest_identity",
    "test_lake_ingest_legacy",
    "test_lake_ingest_history",
    "test_lake_ingest_empty",
    "test_lake_ingest_odd_packets",
    "test_lake_ingest_protocols",
    "test_lake_datasource_results",
    "test_lake_datasource_rows",
    "test_lake_runners",
    "test_lake_sql_file_pruning",
    "test_lake_sql_query_guard",
    "test_lake_storage_paths",
    "test_lake_storage_retiring",
    "test_lake_storage_tables",
    "test_lake_storage_upkeep",
    "test_lake_streaming_command",
    "test_lake_streaming_ingest",
    "test_lake_streaming_kills",
    "test_lake_url_secrets",
    "test_live_command",
    "test_live_examples",
    "test_live_follow",
    "test_live_lake",
    "test_live_legacy",
    "test_live_processes",
    "test_live_recorder",
    "test_package",
    "test_publisher_legacy",
    "test_publisher_replay",
    "test_publisher_streams",
    "test_sbe_agreement",
    "test_sbe_properties",
    "test_schemas_hostile",
    "test_simulation_run",
    "test_umdf_events",
    "test_umdf_gaps",
    "test_web_browser",
    "test_web_guards",
    "test_web_hostile_lake",
    "test_web_lake",
    "test_web_legacy",
    "test_web_live",
}
"""Files that take four seconds or more."""


def pytest_xdist_auto_num_workers():
    """How many processes run the tests: a third of the time they wait for others that they started.

    Each is a Python of a gigabyte, and starts some Java at times.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(2, min(max(3, os.cpu_count() or 1), memory // (4 << 30)))


def pytest_collection_modifyitems(config, items):
    """Mark what starts Spark or is slow, and begin with what takes longest."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if NEED_SPARK & fixtures:
            item.add_marker("spark")
        if item.path.stem in SLOW:
            item.add_marker("slow")
        if "spark" in fixtures and item.path.stem not in TOGETHER:
            raise pytest.UsageError(f"{item.path.stem} uses Spark: name it in ON_SPARK")
    rank = {name: index for index, name in enumerate(SLOWEST)}
    several = getattr(config, "workerinput", {"workercount": 1})["workercount"] > 1

    def order_of(item):
        file = item.path.stem
        # Commands come before Spark: what they say is looked at, and a Spark that a process has
        # started says something now and then, wherever its tests are. Where there are several
        # processes, one begins with all that Spark does: others have long run the commands then.
        first = file in ON_SPARK if several else item.path.parent.name == "cli"
        return not first, item.path.parent.name != "cli", rank.get(file, len(rank))

    items.sort(key=order_of)


def pytest_collection_finish():
    """Look for garbage from now on, but not among what was collected."""
    gc.freeze()
    gc.enable()


def together(test):
    """The file of a test, or the stand-in for it and others: one process runs them."""
    file = Path(test.partition("::")[0])
    if file.parent.name in FOLDERS_TOGETHER:
        return file.parent.name
    return TOGETHER.get(file.stem, file.stem)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """If complete files go to a process, those that belong together go to the same one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid)

    return Together(config, log)


def pytest_unconfigure():
    """Remove everything that tests and their commands left."""
    shutil.rmtree(_FOLDER, ignore_errors=True)


@pytest.fixture
def one_core():
    """Packets that are sent on one core are received in their order; moved to another core in
    between, the kernel may take the later ones first."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)
