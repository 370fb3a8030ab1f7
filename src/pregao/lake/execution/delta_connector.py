"""Delta's own connector for Spark: whether it is among the jars and built for this Spark.

It is optional: tables are read without it. If named it is used, after a check of the versions: a
connector of another Spark fails with unclear errors, or hangs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pregao.errors import UsageError

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

_ARTIFACT = re.compile(r"delta-spark(?:_(\d+\.\d+))?_2\.1[23][:-]((\d+\.\d+)\.\d+\S*?)(?:\.jar)?$")
_BUILT_FOR = {"4.0": "4.0", "4.1": "4.1", "4.2": "4.1", "4.3": "4.1", "4.4": "4.2"}
"""Spark versions of connectors whose names lack it (``delta-spark_2.13``)."""


@dataclass(frozen=True, slots=True)
class DeltaConnector:
    """Connector as named, and the Spark version that it is built for, if known."""

    name: str
    spark: str | None


def uses_connector(chosen: Mapping[str, str], spark: str | None = None) -> bool:
    """Whether to enable the connector; raise `UsageError` for a named one of another Spark."""
    running = ".".join((spark or _spark_version()).split(".")[:2])
    for connector in _named(chosen):
        if connector.spark is None:
            raise UsageError(
                f"The Spark version of {connector.name} is unknown; use "
                f"io.delta:delta-spark_{running}_2.13:VERSION, or omit it: tables are read "
                "without it."
            )
        if connector.spark != running:
            raise UsageError(
                f"{connector.name} is built for Spark {connector.spark}, but this is Spark "
                f"{running}. Use io.delta:delta-spark_{running}_2.13 if it exists, or omit "
                "it: tables are read without it."
            )
        return True
    # An installed one that was not named is ignored if its version does not match.
    return any(connector.spark == running for connector in _installed())


def connector_of(name: str) -> DeltaConnector | None:
    """Return the connector of a jar's or artifact's name."""
    if "delta-spark" not in name:
        return None
    matched = _ARTIFACT.search(name)
    if matched is None:
        return DeltaConnector(name, None)
    version, _, release = matched.groups()
    if version is None:
        version = "3.5" if release.startswith("3.") else _BUILT_FOR.get(release)
    return DeltaConnector(name, version)


def _named(chosen: Mapping[str, str]) -> Iterator[DeltaConnector]:
    for key in ("spark.jars.packages", "spark.jars"):
        for name in chosen.get(key, "").split(","):
            if found := connector_of(name.strip().rpartition("/")[2]):
                yield found


def _installed() -> Iterator[DeltaConnector]:
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    for jar in (home / "jars").glob("delta-spark*.jar"):
        if found := connector_of(jar.name):
            yield found


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)
