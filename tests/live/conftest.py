"""The command, as in the tests of the command line."""

from tests.cli.conftest import pregao

__all__ = ["pregao"]
