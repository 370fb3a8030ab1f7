"""A lake of someone else: its texts are values, never SQL and never markup."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from pregao.cli.main import app
from pregao.cli.plot import ChartKind
from pregao.errors import PregaoError
from pregao.lake.sql.duckdb_engine import bound_rows
from pregao.lake.storage.lake_store import LakeStore
from pregao.web.lake_market import LakeMarket
from pregao.web.server import PageServer, lake_application
from tests.web.conftest import DAY
from tests.web.visiting import get

MARKUP = "<img src=x onerror=alert(1)>"
TEXTS = {
    "instruments": ("symbol", "security_group", "security_desc", "asset", "isin_number"),
    "books": ("symbol",),
    "ticks": ("symbol",),
    "bars": ("symbol",),
    "trades": ("symbol",),
    "status": ("security_group", "status"),
    "gaps": ("feed", "reason"),
    "packets": ("feed", "outcome"),
    "auctions": ("kind", "symbol"),
    "latency": ("feed",),
    "latency_minutes": ("measure",),
    "umdf_news_5": ("headline", "text"),
    "ingests": ("capture", "path", "file"),
}
"""Columns of text that are replaced in all rows."""


@pytest.fixture(scope="module")
def hostile(lake_path, tmp_path_factory):
    """A copy of the lake whose texts are SQL and markup; gives its folder and what SQL would write.

    The bars keep those of one minute and get more under the name of a statement.
    """
    folder = tmp_path_factory.mktemp("hostile")
    lake, written = folder / "lake", folder / "written"
    written.mkdir()
    shutil.copytree(lake_path, lake)
    for name, columns in TEXTS.items():
        if (lake / name).is_dir():
            text = payload(written, name)
            _rewrite(lake / name, lambda rows, c=columns, t=text: _replaced(rows, c, t))
    _rewrite(lake / "bars", lambda rows: pa.concat_tables([rows, _bars(rows, written)]))
    return lake, written


def payload(written, name):
    """Text that ends a literal, writes a file, and is markup too."""
    target = written / f"{name}.csv"
    return f"{MARKUP}X'); COPY (SELECT 42) TO '{target}'; SELECT ('"


def _bars(rows, written):
    one = rows.slice(0, 1)
    return pa.concat_tables([_replaced(one, ("interval",), name) for name in _names(written)])


def _names(written):
    """Names of bars that we never write."""
    return [
        f"1m'; COPY (SELECT 42) TO '{written / 'interval.csv'}' --",
        "1m' OR '1' = '1", "60s", "١m", "9" * 5_000 + "s", MARKUP, "",
    ]  # fmt: skip


def _replaced(rows, columns, text):
    for name in columns:
        at = rows.schema.get_field_index(name)
        if at >= 0 and pa.types.is_string(rows.schema.field(at).type):
            rows = rows.set_column(at, rows.schema.field(at), pa.array([text] * rows.num_rows))
    return rows


def _rewrite(location, change):
    table = DeltaTable(location)
    parts = table.metadata().partition_columns
    rows = change(pa.table(table.to_pyarrow_table()))
    write_deltalake(table, rows, mode="overwrite", partition_by=parts or None)


def content(folder):
    return sorted(
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for path in Path(folder).rglob("*")
        if path.is_file()
    )


@pytest.fixture(scope="module")
def page(hostile):
    with PageServer(lake_application(LakeMarket(str(hostile[0]))), 0) as served:
        yield served


@pytest.fixture(scope="module")
def about(page):
    found = get(page, "api/instruments", day=DAY).json()["instruments"][0]
    own = {"day": DAY, "channel": found["channel"], "id": found["id"]}
    return own, get(page, "api/instrument", **own).json()


def test_texts_of_the_lake_are_texts_of_the_page(page, hostile, about):
    own, described = about
    instruments = payload(hostile[1], "instruments")
    for name in ("symbol", "group", "description", "isin"):
        assert described[name] == instruments, name
    phases = [status for _, _, status, _ in described["phases"]]
    assert phases
    assert set(phases) == {payload(hostile[1], "status")}
    assert {one["headline"] for one in get(page, "api/news", day=DAY).json()} <= {
        payload(hostile[1], "umdf_news_5")
    }
    answer = get(page, "api/instrument", **own)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self';" in answer.headers["content-security-policy"]


def test_only_intervals_that_we_write_are_offered_and_answered(page, hostile, lake_path, about):
    own, described = about
    assert described["intervals"] == ["1s", "1m", "5m", "1h", "1d"]
    rows = DeltaTable(hostile[0] / "bars").to_pyarrow_table().to_pylist()
    mine = [row for row in rows if str(row["security_id"]) == own["id"]]
    for interval in {row["interval"] for row in rows}:
        bars = get(page, "api/bars", **own, interval=interval).json()
        volumes = sorted(row["volume"] for row in mine if row["interval"] == interval)
        offered = interval in described["intervals"]
        assert sorted(bar[5] for bar in bars) == (volumes if offered else []), interval


def test_every_route_and_every_picture_of_a_hostile_lake_executes_nothing(
    page, hostile, about, tmp_path
):
    lake, written = hostile
    own, described = about
    before = content(lake)
    span = {"from": described["begin"], "to": described["end"]}
    symbol = described["symbol"]
    requests = [
        ("about", {}),
        *(("instruments", {"day": DAY, "q": words}) for words in ("", symbol, "'", '"; --')),
        ("instrument", own),
        ("book", {**own, "at": described["end"]}),
        ("trades", {**own, "at": described["end"]}),
        *(("jump", {**own, "at": described["begin"], "kind": kind}) for kind in ("trade", "gap")),
        ("jump", {**own, "at": described["begin"], "kind": "phase"}),
        ("heatmap", own | span),
        *(
            ("bars", {**own, "interval": one})
            for one in (*described["intervals"], *_names(written))
        ),
        ("auctions", own),
        ("health", {"day": DAY}),
        ("news", {"day": DAY}),
        ("latency", {"day": DAY, "channel": own["channel"]}),
    ]
    answers = [(path, get(page, f"api/{path}", **parameters)) for path, parameters in requests]
    assert list(written.iterdir()) == []
    for path, answer in answers:
        assert answer.status_code == 200, (path, answer.text)
    drawn, results = set(), []
    for kind in ChartKind:
        names = [] if kind.of_all else [own["id"], f"{symbol}' OR '1' = '1"]
        for at, name in enumerate(names or [None]):
            output = tmp_path / f"{kind}-{at}.png"
            words = ["plot", str(kind), *([name] if name else []), "--lake", str(lake)]
            results.append(CliRunner().invoke(app, [*words, "-o", str(output)]))
            drawn |= {(kind, at)} if output.exists() else set()
    assert list(written.iterdir()) == []
    assert drawn == {(kind, 0) for kind in ChartKind}, [one for one in results if one.exception]
    assert content(lake) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "COPY (SELECT 42) TO '{file}'",
        "SET enable_external_access = true",
        "ATTACH '{file}.db'",
        "SELECT 1; COPY (SELECT 42) TO '{file}'",
    ],
)
def test_a_session_of_the_page_can_open_no_file(lake_path, tmp_path, sql):
    file = tmp_path / "some.csv"
    file.write_text("a\n1\n")
    with pytest.raises(PregaoError, match="gaps cannot be read"):
        bound_rows(LakeStore(lake_path), ["gaps"], sql.format(file=file))
    assert [path.name for path in tmp_path.iterdir()] == ["some.csv"]
    assert file.read_text() == "a\n1\n"
