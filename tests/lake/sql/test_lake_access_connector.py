"""Our tables in Delta's own connector for Spark: read, travelled through in time, queried by us."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyspark
import pytest

from tests.lake.lake_support import ROOT, unit_of

CENTRAL = "https://repo1.maven.org/maven2/io/delta"
SPARK = ".".join(pyspark.__version__.split(".")[:2])
RELEASE = "4.4.0"
KEPT = Path.home() / ".cache" / "pregao-tests" / "jars"
"""Jars that were fetched once stay there."""

READ = """
import sys
from pregao.lake import connect

location, jars, last = sys.argv[1:]
conf = {"spark.jars": jars, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
session = connect(location, master="local[2]", **conf)
orders = f"{location}/orders"
table = session.table("orders")
plan = table._jdf.queryExecution().executedPlan().toString()
assert "Delta" in plan or "Tahoe" in plan, plan  # what lists the files is the connector's
print("now", *sorted(row.sequence_number for row in table.collect()))
last = int(last)
before = session.read.format("delta").option("versionAsOf", last - 1).load(orders)
print("before", *sorted(row.sequence_number for row in before.collect()))
text = f"SELECT count(*) AS n FROM delta.`{orders}` VERSION AS OF {last - 2}"
print("first", session.sql(text).first().n)
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.sql import catalog_ddl

for statement in catalog_ddl(LakeStore(location), "registered").split(";\\n"):
    if statement.strip():
        session.sql(statement)
text = "SELECT price, CAST(sending_time AS STRING) FROM registered.v_orders ORDER BY 2"
print("registered", *session.sql(text).first())
"""


@pytest.fixture(scope="module")
def jars():
    """The connector for this Spark, from Maven Central."""
    names = {
        f"delta-spark_{SPARK}_2.13": RELEASE,
        "delta-storage": RELEASE,
    }
    found = []
    for name, release in names.items():
        jar = KEPT / f"{name}-{release}.jar"
        if not jar.exists():
            fetch(f"{CENTRAL}/{name}/{release}/{jar.name}", jar)
        found.append(str(jar))
    return ",".join(found)


def fetch(address, jar):
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            content = answer.read()
    except urllib.error.HTTPError as error:
        pytest.skip(f"Delta has no connector {RELEASE} for Spark {SPARK} ({error.code}): {address}")
    except OSError as error:
        pytest.skip(f"Maven Central, which has Delta's connector, is not reached: {error}")
    jar.parent.mkdir(parents=True, exist_ok=True)
    part = jar.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(jar)


def test_tables_are_read_travelled_through_and_registered_with_the_connector(
    small_lake, jars, tmp_path
):
    small_lake.commit(unit_of(small_lake.location, "u3", ["c3"], first_number=5))
    last = small_lake.delta("orders").version()
    done = subprocess.run(
        [sys.executable, "-c", READ, small_lake.location.uri, jars, str(last)],
        cwd=tmp_path,  # where Spark keeps what is registered
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, registered = done.stdout.splitlines()
    assert lines == ["now 1 2 3 4 5 6", "before 1 2 3 4", "first 2"]
    assert registered == "registered 10.0000 2025-05-21 13:00:00"


def test_a_connector_of_another_spark_is_refused_before_spark_starts(small_lake):
    done = subprocess.run(
        [
            sys.executable, "-c", "from pregao.cli.main import run; run()", "query", "SELECT 1",
            "--lake", small_lake.location.uri,
            "--conf", "spark.jars.packages=io.delta:delta-spark_4.0_2.13:4.4.0",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    words = " ".join(done.stderr.split())
    assert f"is built for Spark 4.0, but this is Spark {SPARK}" in words
