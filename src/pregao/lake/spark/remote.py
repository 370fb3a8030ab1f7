"""Sessions on a Spark Connect server (``sc://HOST:PORT``): no local Java, and no RDDs."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.spark.spark_errors import sentence

SCHEME = "sc://"
_PORT = 15002
_ANSWER_SECONDS = 10
_OURS = {"spark.sql.session.timeZone": "UTC"}


def is_remote(spark: Any) -> bool:
    """Whether it is a session of Spark Connect."""
    return any(each.__module__.startswith("pyspark.sql.connect") for each in type(spark).__mro__)


def remote_master(master: str | None, conf: Mapping[str, str]) -> str | None:
    """Return the named Spark Connect server, or None."""
    if master is None:
        master = conf.get("spark.remote") or conf.get("spark.master")
        master = master or os.environ.get("SPARK_REMOTE")
    return master if master is not None and master.startswith(SCHEME) else None


def remote_session(url: str, conf: Mapping[str, str]) -> Any:
    """Open a session on a server; fails immediately where Spark would retry for minutes."""
    require("pyspark")
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:  # Spark raises its own subclass
        raise UsageError(
            "Spark Connect requires more packages: pip install 'pregao[connect]'."
        ) from error
    _answers(url)
    from pyspark.sql import SparkSession as AnySession

    logging.getLogger("pyspark.sql.connect").setLevel(logging.CRITICAL)
    try:
        spark: Any = SparkSession.getActiveSession()
        if spark is None:
            builder: Any = AnySession.builder
            spark = builder.remote(url).getOrCreate()
        for key, value in {**_OURS, **conf}.items():
            if key not in ("spark.remote", "spark.master", "spark.app.name"):
                spark.conf.set(key, value)
    except Exception as error:
        raise UsageError(f"Spark did not start on {url}: {sentence(error)}") from error
    return spark


def _answers(url: str) -> None:
    """Raise `UsageError` if no server answers."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host = None
    if not host:
        raise UsageError(f"A Spark Connect server must be sc://HOST:PORT, was {url}.")
    try:
        socket.create_connection((host, port), _ANSWER_SECONDS).close()
    except OSError as error:
        raise UsageError(
            f"No Spark Connect server answers at {host}:{port}: {error.strerror or error}."
        ) from error
