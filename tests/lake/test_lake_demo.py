"""The demonstration: a session simulated, taken in and asked, and the same again."""

from pregao.cli.demo import QUESTIONS, run
from pregao.clock import SECOND
from tests.lake.days import rows


def test_the_demonstration_can_be_repeated(tmp_path, spark, capsys):
    run(tmp_path, duration_ns=20 * SECOND)
    told = capsys.readouterr().out
    assert "messages decoded" in told
    for question in QUESTIONS:
        assert question.words in told
    assert "PETR" in told
    trades = rows(tmp_path / "lake", "umdf_trade_53")
    assert trades
    run(tmp_path, duration_ns=20 * SECOND)
    assert "Nothing new" in capsys.readouterr().out
    assert rows(tmp_path / "lake", "umdf_trade_53") == trades
