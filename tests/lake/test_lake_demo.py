"""The demonstration: a session simulated, ingested, queried, proved and plotted; and repeated."""

import re

import pytest

from pregao import extras
from pregao.cli.demo import QUESTIONS, run
from pregao.clock import SECOND
from pregao.errors import UsageError
from tests.lake.days import rows


def check(told):
    """Output of every demonstration."""
    for question in QUESTIONS:
        assert question.words in told
    audit = r"([\d,]+) of ([\d,]+) snapshots of [\d,]+\s+instruments\s+equal"
    equal, compared = re.search(audit, told).groups()
    assert equal == compared
    assert "PETR" in told
    assert "Next steps" in told


def test_the_demonstration_can_be_repeated(tmp_path, spark, capsys):
    run(tmp_path, duration_ns=20 * SECOND)
    told = capsys.readouterr().out
    assert "messages decoded" in told
    assert "on Spark" in told
    check(told)
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
    told = capsys.readouterr().out
    assert "in this process" in told
    assert ("there is no Java" if missing == "java" else "This needs pyspark") in told
    check(told)
    assert "█" in told
    assert not list(tmp_path.glob("*.png"))
