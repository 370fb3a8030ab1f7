"""The command in this process, as the tests of the commands run it."""

from tests.cli.conftest import pregao

__all__ = ["pregao"]
