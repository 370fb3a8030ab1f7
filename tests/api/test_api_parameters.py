"""Errors of the Python API name its parameters, not options of the command line."""

import re

import pytest

import pregao
from pregao.api.arguments import parameters
from pregao.errors import NothingFoundError, UsageError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"instruments": 0}, "instruments must be from 1 to"),
        ({"duration": "soon"}, "duration must be a duration such as"),
        ({"schema_version": 3}, "schema_version must be one of"),
        ({"late_join": "9"}, "late_join"),
        ({"rate": -1.0}, "rate must be above 0"),
        ({"loss": "C=0.1"}, "loss"),
    ],
)
def test_an_error_of_simulate_names_the_parameter(tmp_path, arguments, message):
    with pytest.raises(UsageError, match=f"^{message}") as caught:
        pregao.simulate(tmp_path / "day", **arguments)
    assert "--" not in str(caught.value)


def test_an_error_of_a_query_names_the_parameter(lake):
    with pytest.raises(UsageError, match="Use engine='spark' for Spark's functions"):
        lake.sql("SELECT from_unixtime(1)")


def test_commands_and_kinds_of_errors_are_kept():
    text = (
        "--late-join needs --date or --channel; run `pregao books --lake x`, then --engine spark."
    )
    with pytest.raises(NothingFoundError) as caught, parameters(date="day"):
        raise NothingFoundError(text)
    assert str(caught.value) == (
        "late_join needs day or channel; run `pregao books --lake x`, then engine='spark'."
    )
    with pytest.raises(UsageError, match=re.escape("a--b `--c` is not one")), parameters():
        raise UsageError("a--b `--c` is not one")
