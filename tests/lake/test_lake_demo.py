"""The demonstration: a session simulated, ingested, queried, proved and plotted; and repeated."""

import re

import pytest

from pregao import extras
from pregao.cli.demo import QUESTIONS, run
from pregao.clock import SECOND
from pregao.errors import UsageError
from tests.lake.days import rows


def check(output):
    """Output of every demonstration."""
    for question in QUESTIONS:
        assert question.words in output
    audit = r"([\d,]+) of ([\d,]+) snapshots of [\d,]+\s+instruments\s+equal"
    equal, compared = re.search(audit, output).groups()
    assert equal == compared
    assert "PETR" in output
    assert "Next steps" in output


def test_the_demonstration_can_be_repeated(tmp_path, spark, capsys):
    run(tmp_path, duration_ns=20 * SECOND)
    output = capsys.readouterr().out
    assert "messages decoded" in output
    assert "on Spark" in output
    check(output)
    assert list(tmp_path.glob("*.png"))
    trades = rows(tmp_path / "lake", "umdf_trade_53")
    assert trades
    run(tmp_path, duration_ns=20 * SECOND)
    assert "Nothing new" in capsys.readouterr().out
    assert rows(tmp_path / "lake", "umdf_trade_53") == trades


@pytest.mark.parametrize("missing", ["java", "pyspark"])
def test_it_runs_without_spark_and_without_matplotlib(tmp_path, capsys, monkeypatch, missing):
    def no_java(*_):
        raise UsageError("there is no Java")

    real = extras.installed
    absent = {"matplotlib", missing}
    monkeypatch.setattr(extras, "installed", lambda name: name not in absent and real(name))
    if missing == "java":
        monkeypatch.setattr("pregao.lake.execution.spark_session.find_java", no_java)
    run(tmp_path, duration_ns=20 * SECOND)
    output = capsys.readouterr().out
    assert "in this process" in output
    assert ("there is no Java" if missing == "java" else "This needs pyspark") in output
    check(output)
    assert "█" in output
    assert not list(tmp_path.glob("*.png"))
