"""Runs the command line: `python -m pregao`."""

from pregao.cli.main import run

if __name__ == "__main__":  # processes that a command starts import this too
    run()
