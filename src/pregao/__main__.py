"""Entry point of the command line: `python -m pregao`."""

from pregao.cli.main import run

if __name__ == "__main__":  # worker processes of a command import this module too
    run()
