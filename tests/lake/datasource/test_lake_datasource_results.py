"""A DataFrame of the data source gives the same answer however often and wherever it is used."""

from collections import Counter

import pytest

from pregao.lake.datasource.data_source import register
from tests.lake.datasource.test_lake_datasource_rows import plain
from tests.lake.days import day


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request):
    name = {"classic": "spark", "connect": "connect_session"}[request.param]
    found = request.getfixturevalue(name)
    register(found)
    return found


@pytest.fixture
def orders(session):
    """A DataFrame of the day's orders; what a test does to one does not reach another."""
    return session.read.format("b3").option("template", "50").load(str(day(duration="20s")))


def by_instrument():
    return Counter(row["security_id"] for row in plain("50").to_pylist())


def busiest():
    return by_instrument().most_common(1)[0][0]


def test_a_frame_that_was_filtered_once_is_complete_again(orders):
    everything, some = plain("50").num_rows, by_instrument()[busiest()]
    assert orders.count() == everything
    assert orders.where(f"security_id = {busiest()}").count() == some < everything
    assert orders.count() == everything
    assert orders.where(f"security_id <> {busiest()}").count() == everything - some
    assert orders.count() == everything


def test_a_union_of_two_filters_has_the_rows_of_both(orders):
    one = orders.where(f"security_id = {busiest()}")
    other = orders.where(f"security_id <> {busiest()}")
    assert one.union(other).count() == plain("50").num_rows
    assert orders.union(one).count() == plain("50").num_rows + by_instrument()[busiest()]


def test_a_join_with_itself_filters_each_side_by_its_own(orders):
    counted = orders.groupBy("security_id").count().alias("all")
    one = orders.where(f"security_id = {busiest()}").groupBy("security_id").count().alias("one")
    both = counted.join(one, "security_id", "left").selectExpr(
        "security_id", "all.count as every", "one.count as some"
    )
    found = {row.security_id: (row.every, row.some) for row in both.collect()}
    expected = by_instrument()
    assert found == {
        number: (count, count if number == busiest() else None)
        for number, count in expected.items()
    }


def test_a_view_gives_every_query_its_own_answer(session, orders):
    orders.createOrReplaceTempView("b3_orders")
    whole = "SELECT count(*) AS n FROM b3_orders"
    part = f"{whole} WHERE security_id = {busiest()}"
    wanted = [plain("50").num_rows, by_instrument()[busiest()]] * 2
    found = [session.sql(text).first().n for text in (whole, part, whole, part)]
    assert found == wanted
    both = session.sql(f"SELECT ({part}) AS some, ({whole}) AS every").first()
    assert (both.every, both.some) == tuple(wanted[:2])
    session.catalog.dropTempView("b3_orders")


def test_an_option_belongs_to_its_frame_alone(session, orders):
    narrow = (
        session.read.format("b3")
        .option("template", "50")
        .option("securityId", busiest())
        .load(str(day(duration="20s")))
    )
    assert narrow.count() == by_instrument()[busiest()]
    assert orders.count() == plain("50").num_rows
    assert narrow.union(orders).count() == plain("50").num_rows + by_instrument()[busiest()]
