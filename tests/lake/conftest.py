"""What the lake's tests share: a Spark session, a cluster, an S3 store, a small lake."""

from __future__ import annotations

import pytest

from pregao.lake.session import spark_session
from pregao.lake.store import Lake
from tests.lake.lake_support import ORDERS, TRADES, unit_of


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of the tests."""
    session = spark_session("local[2]", {"spark.driver.memory": "1g"})
    yield session
    session.stop()


@pytest.fixture
def small_lake(tmp_path):
    """Two units on two days, two rows each, in orders and trades; an empty table besides."""
    lake = Lake(tmp_path / "lake")
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(lake.location, "u1", ["c1"], day="2026-05-21"))
    lake.commit(unit_of(lake.location, "u2", ["c2"], day="2026-05-22", first_number=3))
    return lake
