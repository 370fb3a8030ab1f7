"""Delta's own connector for Spark: is it among the jars, and is it built for this Spark?

It is not needed: tables are read without it. Where it is named it is used, after a look at the
versions: a connector of another Spark fails in ways that tell nothing, or hangs.
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
"""The Spark of connectors whose names do not tell it (``delta-spark_2.13``)."""


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as it was named, and the Spark that it is built for, if that is known."""

    name: str
    spark: str | None


def uses_connector(chosen: Mapping[str, str], spark: str | None = None) -> bool:
    """Is the connector to be switched on? One that was asked for must be built for this Spark."""
    running = ".".join((spark or _spark_version()).split(".")[:2])
    for connector in _named(chosen):
        if connector.spark is None:
            raise UsageError(
                f"It is not known for which Spark {connector.name} is built; name "
                f"io.delta:delta-spark_{running}_2.13:VERSION, or leave it out: tables are read "
                "without it."
            )
        if connector.spark != running:
            raise UsageError(
                f"{connector.name} is built for Spark {connector.spark}, and this is Spark "
                f"{running}. Name io.delta:delta-spark_{running}_2.13 if there is one, or leave it "
                "out: tables are read without it."
            )
        return True
    # One that lies there without having been asked for is left alone if it does not fit.
    return any(connector.spark == running for connector in _installed())


def connector_of(name: str) -> Connector | None:
    """A connector by the name of its jar or artifact."""
    if "delta-spark" not in name:
        return None
    matched = _ARTIFACT.search(name)
    if matched is None:
        return Connector(name, None)
    told, _, release = matched.groups()
    if told is None:
        told = "3.5" if release.startswith("3.") else _BUILT_FOR.get(release)
    return Connector(name, told)


def _named(chosen: Mapping[str, str]) -> Iterator[Connector]:
    for key in ("spark.jars.packages", "spark.jars"):
        for name in chosen.get(key, "").split(","):
            if found := connector_of(name.strip().rpartition("/")[2]):
                yield found


def _installed() -> Iterator[Connector]:
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    for jar in (home / "jars").glob("delta-spark*.jar"):
        if found := connector_of(jar.name):
            yield found


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)
