"""Enumerations of the exchange are those of the schemas."""

import runpy
from enum import Enum
from pathlib import Path

import pytest

from pregao.exchange.engine.model import enums, instruments

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "packaging" / "wire_enums.py"))


@pytest.mark.parametrize("module", [enums, instruments], ids=lambda module: module.__name__)
def test_enumerations_have_the_members_of_the_schemas(module):
    found = 0
    for cls in vars(module).values():
        if (
            not isinstance(cls, type)
            or not issubclass(cls, Enum)
            or cls.__module__ != module.__name__
        ):
            continue
        if cls.__name__ not in SCRIPT["OURS"]:
            own = {name: member.value for name, member in cls.__members__.items()}
            assert own == SCRIPT["members_of"](cls), cls.__name__
            found += 1
    assert found > 10


@pytest.mark.parametrize("module", SCRIPT["MODULES"])
def test_the_script_would_change_nothing(module):
    current = (SCRIPT["MODEL"] / f"{module}.py").read_text(encoding="utf-8")
    assert SCRIPT["rendered"](module) == current, "run python packaging/wire_enums.py"
