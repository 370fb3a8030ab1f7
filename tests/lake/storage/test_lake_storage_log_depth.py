"""Logs that would overflow the stack of the table library are refused before it reads them."""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.lake.storage.delta import load_existing
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.local_log import _line_is_deep


def table_of(folder):
    write_deltalake(folder, pa.table({f"column_{n}": [n] for n in range(900)}))
    return folder / "_delta_log"


@pytest.mark.parametrize("around", [("[", "]"), ('{"a":', "}"), ('[1,{"]":', "}]")])
def test_a_commit_of_100_000_brackets_is_refused(tmp_path, around):
    log = table_of(tmp_path)
    before, after = around
    line = '{"add":' + before * 100_000 + "1" + after * 100_000 + "}\n"
    (log / f"{1:020d}.json").write_text(line)
    with pytest.raises(UsageError, match=r"00001\.json is nested more than 64 levels deep"):
        load_existing(Location.parse(tmp_path))


def test_a_wide_table_is_read(tmp_path):
    log = table_of(tmp_path)
    assert (log / f"{0:020d}.json").read_text().count("{") > 900
    assert load_existing(Location.parse(tmp_path)).version() == 0


def test_a_deep_pointer_to_the_checkpoint_is_refused(tmp_path):
    (table_of(tmp_path) / "_last_checkpoint").write_text("[" * 100_000)
    with pytest.raises(UsageError, match="_last_checkpoint is nested more than 64 levels"):
        load_existing(Location.parse(tmp_path))


def test_a_pointer_to_a_checkpoint_that_is_not_there_hides_no_commit(tmp_path):
    log = table_of(tmp_path)
    (log / f"{1:020d}.json").write_text("[" * 100_000)
    (log / "_last_checkpoint").write_text('{"version": 900, "size": 3}')
    with pytest.raises(UsageError, match="nested more than 64 levels"):
        load_existing(Location.parse(tmp_path))


def test_commits_before_the_checkpoint_are_not_read(tmp_path):
    log = table_of(tmp_path)
    load_existing(Location.parse(tmp_path)).create_checkpoint()
    (log / f"{0:020d}.json").write_text("[" * 100_000)
    assert load_existing(Location.parse(tmp_path)).version() == 0


@given(st.text(alphabet='[]{}"\\a', max_size=40), st.integers(1, 60))
def test_brackets_within_texts_do_not_count(text, depth):
    filler = [text * 100] * 30
    line = json.dumps({"a": filler, "b": "[" * 3_000}).encode()
    assert not _line_is_deep(line)
    nested = "[" * depth + "]" * depth
    assert not _line_is_deep(line[:-1] + f',"c":{nested}}}'.encode())
    deep = "[" * 70 + "]" * 70
    assert _line_is_deep(line[:-1] + f',"c":{deep}}}'.encode())
