"""Check for executors of a standalone cluster: if none starts, compare the request with the
cluster.

Spark itself waits forever, and logs the reason where users do not see it.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pregao.errors import UsageError

PATIENCE_SECONDS = 15
_GRANTED_SECONDS = 120
"""Maximum time for an executor to start once the cluster has granted it."""
_POLL_SECONDS = 0.1
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """Worker: its cores and MB of memory, in total and free."""

    cores: int
    memory: int
    free_cores: int
    free_memory: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Workers of a cluster, and whether it has granted us any executor."""

    workers: tuple[ClusterWorker, ...]
    granted: bool


def require_executors(
    spark: Any, settings: Mapping[str, str], patience: float = PATIENCE_SECONDS
) -> None:
    """Wait for the first executor; if the cluster grants none, stop the session and raise why."""
    if settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return  # executors start when there is work
    context = spark.sparkContext
    began = time.monotonic()
    cluster: ClusterStatus | None = None
    while True:
        # The driver counts as one.
        if context._jsc.sc().getExecutorMemoryStatus().size() > 1:
            return
        waited = time.monotonic() - began
        if waited > patience:
            cluster = cluster_status(context)
            if cluster is None or not cluster.granted or waited > _GRANTED_SECONDS:
                break
        time.sleep(_POLL_SECONDS)
    master = context.master
    cores = int(settings.get("spark.executor.cores", "1"))
    memory = _requested_memory(context)
    spark.stop()
    raise UsageError(no_executor(master, int(waited), cores, memory, cluster))


def no_executor(
    master: str, waited: float, cores: int, memory: int, cluster: ClusterStatus | None
) -> str:
    """Return the reason why no executor started, if known."""
    required = f"{memory:,} MB of memory and {_cores(cores)}"
    message = f"{master} started no executor in {waited:g} s. Each requires {required}"
    if cluster is None:
        return f"{message}; see the resources of the cluster on its master's web page."
    if not cluster.workers:
        return f"{message}; the cluster has no workers. Start one and try again."
    if cluster.granted:
        return (
            f"{message}; the cluster granted one that cannot connect to the driver: see "
            "spark.driver.host in docs/cluster.md, and the worker's log."
        )
    largest = max(cluster.workers, key=lambda each: (each.memory, each.cores))
    count = len(cluster.workers)
    has = (
        f"the cluster has {count} {'worker' if count == 1 else 'workers'}, the largest with "
        f"{largest.memory:,} MB and {_cores(largest.cores)}"
    )
    if any(each.memory >= memory and each.cores >= cores for each in cluster.workers):
        free = max(cluster.workers, key=lambda each: (each.free_cores, each.free_memory))
        return (
            f"{message}; {has}, of which at most {free.free_memory:,} MB and "
            f"{_cores(free.free_cores)} are free. Wait for the other applications, or request less."
        )
    return (
        f"{message}; {has}. Request less: --conf spark.executor.memory={largest.memory}m "
        f"--conf spark.executor.cores={min(cores, largest.cores)}."
    )


def cluster_status(context: Any) -> ClusterStatus | None:
    """Read the master's web page; return None if it does not answer."""
    host, _, port = context.master.removeprefix("spark://").partition(",")[0].rpartition(":")
    with contextlib.suppress(Exception):  # any failure means no answer
        page = _page_port(context, host, int(port))
        with urllib.request.urlopen(f"http://{host}:{page}/json/", timeout=5) as answer:
            return read_page(json.load(answer), context.applicationId)
    return None


def read_page(data: Mapping[str, Any], application: str) -> ClusterStatus:
    """Return the workers on the master's web page, and whether an application has cores."""
    workers = tuple(
        ClusterWorker(each["cores"], each["memory"], each["coresfree"], each["memoryfree"])
        for each in data["workers"]
        if each["state"] == "ALIVE"
    )
    mine = [each for each in data["activeapps"] if each["id"] == application]
    return ClusterStatus(workers, any(each["cores"] > 0 for each in mine))


def _page_port(context: Any, host: str, port: int) -> int:
    """Return the port of the master's web page, which the master reports."""
    java = context._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    request = loader.loadClass("org.apache.spark.deploy.master.MasterMessages$BoundPortsRequest$")
    answer_class = loader.loadClass(
        "org.apache.spark.deploy.master.MasterMessages$BoundPortsResponse"
    )
    address = java.org.apache.spark.rpc.RpcAddress(host, port)
    master = context._jsc.sc().env().rpcEnv().setupEndpointRef(address, "Master")
    kind = java.scala.reflect.ClassTag.apply(answer_class)
    answer = master.askSync(request.getField("MODULE$").get(None), kind)
    return int(answer.webUIPort())


def _requested_memory(context: Any) -> int:
    return int(context._jsc.sc().executorMemory())


def _cores(count: int) -> str:
    return f"{count} {'core' if count == 1 else 'cores'}"
