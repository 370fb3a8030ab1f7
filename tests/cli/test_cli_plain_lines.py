"""Lines written message by message, without Arrow, equal those written from columns."""

import numpy as np
import pytest

from pregao.cli.decode.rows import json_rows, text_rows
from pregao.cli.decode.tables import text_bytes
from pregao.cli.decode.text import json_lines, text_lines
from pregao.umdf.bulk_decoder import BulkDecoder, MessageBatch, walk
from pregao.umdf.key_columns import key_columns, key_values
from tests.cli.market import VERSIONS, wild_market
from tests.umdf.survey_support import block_of


def batches(walked, *, rows):
    return {
        (outcome.message.id, outcome.version): outcome
        for outcome in BulkDecoder(rows=rows).decode(walked)
        if isinstance(outcome, MessageBatch)
    }


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_both_write_the_same(version):
    block = block_of([payload for _, payload in wild_market(version, (version,), 200).packets])
    walked = walk(block.buffer, block.offset, block.length)
    streams = np.zeros(len(block), np.int8)
    columns, plain = batches(walked, rows=False), batches(walked, rows=True)
    assert len(columns) > 20
    for kind, batch in columns.items():
        if batch.withheld or len(batch.rows) != len(plain[kind].rows):
            continue  # columns hold less than messages do
        arrays = key_columns(walked, batch.rows, block.time_ns, streams)
        values = key_values(walked, batch.rows, block.time_ns, streams)
        assert [array.to_pylist() for array in arrays] == values
        for whole, rows in ((text_lines, text_rows), (json_lines, json_rows)):
            written = bytes(text_bytes(whole(batch, arrays))).decode()
            assert "".join(rows(plain[kind], values)) == written, batch.message.name
