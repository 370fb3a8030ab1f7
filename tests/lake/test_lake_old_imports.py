"""Imports in the documents of version 0.1 still work, with a warning if the name moved."""

import importlib

import pytest

from pregao.lake import spark


def test_the_session_is_still_found_where_it_was():
    with pytest.warns(DeprecationWarning, match=r"is now pregao\.lake\.spark"):
        from pregao.lake.session import spark_session
    assert spark_session is spark.spark_session
    with pytest.raises(AttributeError, match="has no our_settings"):
        _ = importlib.import_module("pregao.lake.session").our_settings


def test_what_did_not_move_needs_no_warning():
    from pregao.lake import connect
    from pregao.lake.source import register
    from pregao.lake.store import Lake, TableSpec, Unit

    assert all(callable(each) for each in (connect, register, Lake, TableSpec, Unit))


@pytest.mark.parametrize("room", ["store", "ingest", "spark", "source", "streaming"])
def test_all_exports_of_a_subpackage_exist(room):
    package = importlib.import_module(f"pregao.lake.{room}")
    names = getattr(package, "_HOME", None) or package.__all__
    assert all(getattr(package, name) is not None for name in names)
    with pytest.raises(AttributeError):
        _ = package.nothing_of_this_name
