"""Fixtures of the lake's tests: a Spark session, a cluster, an S3 store, a small lake."""

from __future__ import annotations

import contextlib
import importlib.resources
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pyspark
import pytest

from pregao.lake.execution.spark_session import spark_session
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.cluster_support import LoopbackCluster, free_port, java_environment, stop_processes
from tests.lake.lake_support import ORDERS, TRADES, unit_of


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of the tests."""
    session = spark_session("local[2]", {"spark.driver.memory": "1g"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory):
    """The address of a Spark Connect server on loopback, in a separate process."""
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed here")
    folder = tmp_path_factory.mktemp("connect")
    port = free_port()
    home = Path(pyspark.__file__).parent
    log = importlib.resources.files("pregao.lake") / "log4j2.properties"
    settings = {
        "spark.master": "local[2,4]",  # by default it runs no task again
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.pyspark.python": sys.executable,
    }
    command = [str(home / "bin" / "spark-submit"), "--class"]
    command.append("org.apache.spark.sql.connect.service.SparkConnectServer")
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    environment = {
        **os.environ,
        **java_environment(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / "server.log").open("wb") as output:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        for _ in range(240):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if server.poll() is not None:
                break
            time.sleep(0.5)
        if server.poll() is not None:
            pytest.fail(f"the server did not start:\n{(folder / 'server.log').read_text()[-2000:]}")
        yield f"sc://127.0.0.1:{port}"
    finally:
        stop_processes([server])


@pytest.fixture(scope="session")
def connect_session(connect_server):
    """A session of Spark Connect, next to the classic one of this process."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(connect_server).create()
    yield session
    session.stop()


@pytest.fixture
def small_lake(tmp_path):
    """Two units on two days, two rows each, in orders and trades; plus an empty table."""
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(lake.location, "u1", ["c1"], day="2026-05-21"))
    lake.commit(unit_of(lake.location, "u2", ["c2"], day="2026-05-22", first_number=3))
    return lake


@pytest.fixture(scope="session")
def s3_server():
    """An S3 store on loopback; requests are answered one at a time, so that what the protocol
    calls atomic is."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *arguments):
            pass

    store = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = threading.Lock()

    def answer(environ, start_response):
        with one_at_a_time:
            return list(store(environ, start_response))

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(60)
    server.server_close()


@pytest.fixture
def s3_endpoint(s3_server, monkeypatch):
    """The store's address; the environment names it and keys, and the bucket ``bucket`` is new."""
    urllib.request.urlopen(
        urllib.request.Request(f"{s3_server}/moto-api/reset", method="POST"), timeout=60
    ).close()
    urllib.request.urlopen(
        urllib.request.Request(f"{s3_server}/bucket", method="PUT"), timeout=60
    ).close()
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return s3_server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Spark cluster on loopback: a master and two workers of one core each."""
    found = LoopbackCluster(tmp_path_factory.mktemp("cluster"))
    try:
        found.start_worker()
        found.start_worker()
        found.wait_for_workers()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def standalone_cluster(cluster):
    """Its address."""
    return cluster.url
