"""The executors of a standalone cluster: if none comes, what was asked for and what there is.

Spark itself waits for ever, and says why in a log that nobody sees.
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
"""How long an executor may take to start once the cluster has granted it."""
_POLL_SECONDS = 0.1
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker: its cores and MB of memory, and those that nobody uses."""

    cores: int
    memory: int
    free_cores: int
    free_memory: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a cluster has, and whether it has granted us anything."""

    workers: tuple[Worker, ...]
    granted: bool


def require_executors(
    spark: Any, settings: Mapping[str, str], patience: float = PATIENCE_SECONDS
) -> None:
    """Wait for the first executor; if the cluster grants none, say why and end the session."""
    if settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return  # executors come when there is work
    context = spark.sparkContext
    began = time.monotonic()
    cluster: Cluster | None = None
    while True:
        # The driver counts as one.
        if context._jsc.sc().getExecutorMemoryStatus().size() > 1:
            return
        waited = time.monotonic() - began
        if waited > patience:
            cluster = look_at_cluster(context)
            if cluster is None or not cluster.granted or waited > _GRANTED_SECONDS:
                break
        time.sleep(_POLL_SECONDS)
    master = context.master
    cores = int(settings.get("spark.executor.cores", "1"))
    memory = _asked_memory(context)
    spark.stop()
    raise UsageError(no_executor(master, patience, cores, memory, cluster))


def no_executor(
    master: str, patience: float, cores: int, memory: int, cluster: Cluster | None
) -> str:
    """Why no executor came, as far as can be told."""
    asked = f"{memory:,} MB of memory and {_cores(cores)}"
    words = f"{master} has given no executor in {patience:g} s. Each asks for {asked}"
    if cluster is None:
        return f"{words}; what the cluster has is on its master's page."
    if not cluster.workers:
        return f"{words}; the cluster has no workers. Start one and try again."
    if cluster.granted:
        return (
            f"{words}; the cluster has granted one that does not reach this machine: see "
            "spark.driver.host in docs/cluster.md, and the worker's log."
        )
    most = max(cluster.workers, key=lambda each: (each.memory, each.cores))
    count = len(cluster.workers)
    has = (
        f"the cluster has {count} {'worker' if count == 1 else 'workers'}, the largest with "
        f"{most.memory:,} MB and {_cores(most.cores)}"
    )
    if any(each.memory >= memory and each.cores >= cores for each in cluster.workers):
        free = max(cluster.workers, key=lambda each: (each.free_cores, each.free_memory))
        return (
            f"{words}; {has}, of which at most {free.free_memory:,} MB and "
            f"{_cores(free.free_cores)} are free. Wait for the other applications, or ask for less."
        )
    return (
        f"{words}; {has}. Ask for less: --conf spark.executor.memory={most.memory}m "
        f"--conf spark.executor.cores={min(cores, most.cores)}."
    )


def look_at_cluster(context: Any) -> Cluster | None:
    """Ask the master for its page and read that; None if it does not answer."""
    host, _, port = context.master.removeprefix("spark://").partition(",")[0].rpartition(":")
    with contextlib.suppress(Exception):  # whatever it is, there is no answer
        page = _page_port(context, host, int(port))
        with urllib.request.urlopen(f"http://{host}:{page}/json/", timeout=5) as answer:
            return read_page(json.load(answer), context.applicationId)
    return None


def read_page(told: Mapping[str, Any], application: str) -> Cluster:
    """What the master's page says of its workers and of an application."""
    workers = tuple(
        Worker(each["cores"], each["memory"], each["coresfree"], each["memoryfree"])
        for each in told["workers"]
        if each["state"] == "ALIVE"
    )
    mine = [each for each in told["activeapps"] if each["id"] == application]
    return Cluster(workers, any(each["cores"] > 0 for each in mine))


def _page_port(context: Any, host: str, port: int) -> int:
    """The port of the master's page, which the master tells."""
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


def _asked_memory(context: Any) -> int:
    return int(context._jsc.sc().executorMemory())


def _cores(count: int) -> str:
    return f"{count} {'core' if count == 1 else 'cores'}"
