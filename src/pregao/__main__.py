"""Runs the command line: `python -m pregao`."""

from pregao.cli.main import run

run()
