"""Running the command in this process, as a user would."""

import io
import sys
from dataclasses import dataclass

import pytest

from pregao.cli import main


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def pregao(monkeypatch, capsys):
    """Run ``pregao`` with arguments; gives exit code, standard output and standard error."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["pregao", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.run()
        captured = capsys.readouterr()
        code = ended.value.code
        return Result(int(code or 0), captured.out, captured.err)

    return run
