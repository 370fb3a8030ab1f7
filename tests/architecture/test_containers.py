"""The files for containers say what there is: paths, commands, options, extras."""

import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

import pregao
from pregao.cli.main import app

ROOT = Path(pregao.__file__).parents[2]


def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def instructions():
    """The lines of the Dockerfile as instruction and rest."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def test_the_image_is_built_from_existing_files_in_the_context():
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "ENTRYPOINT", "CMD"}
    made = instructions()
    assert {name for name, _ in made} <= known
    assert made[0][0] == "FROM"
    sent = (ROOT / ".dockerignore").read_text()
    for name, rest in made:
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in sent
    assert dict(made)["ENTRYPOINT"] == '["pregao"]'


def test_the_image_has_existing_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "Dockerfile").read_text()
    wanted = re.search(r"\.\[([a-z,]+)\]", text)[1].split(",")
    assert {"lake", "ui"} <= set(wanted) <= set(extras["optional-dependencies"])


@pytest.mark.parametrize("name", ["exchange", "live", "page"])
def test_a_service_runs_a_command_with_existing_options(name):
    service = compose()["services"][name]
    first, *rest = service["command"]
    command = typer.main.get_command(app).commands[first]
    known = {option for each in command.params for option in each.opts + each.secondary_opts}
    assert {word for word in rest if word.startswith("--")} <= known
    assert service["network_mode"] == "host"  # what is served on loopback is reached from there
    for volume in service["volumes"]:
        assert volume.partition(":")[0] in compose()["volumes"]
