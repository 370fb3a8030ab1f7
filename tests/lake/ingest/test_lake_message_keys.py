"""The key of a message is the same in every table: names and types are those of umdf.keys."""

import pyarrow as pa
import pytest

from pregao.lake.analytics.run import ANALYTICS
from pregao.lake.books.schemas import AUDIT, CHECKPOINTS
from pregao.lake.datasource.row_shapes import GENERIC, MESSAGE_COLUMNS, PACKET_ROW
from pregao.lake.ingest.schemas import GAPS, KEY, PACKETS, REJECTS
from pregao.umdf.keys import (
    MESSAGE_KEY,
    PACKET_KEY,
    STREAM_KEY,
    key_field,
    key_schema,
    key_type,
)

KEYS = (*STREAM_KEY, *MESSAGE_KEY, "sending_time_ns", "capture_time_ns", "schema_version")
SHAPES = {
    "message tables": KEY,
    "packets": PACKETS,
    "rejects": REJECTS,
    "gaps": GAPS,
    "rows of a template": MESSAGE_COLUMNS,
    "rows of messages": GENERIC,
    "rows of packets": PACKET_ROW,
    **{table.name: table.columns for table in ANALYTICS.values()},
    **{spec.name: spec.schema for spec in (CHECKPOINTS, AUDIT)},
}


@pytest.mark.parametrize("name", SHAPES)
def test_columns_of_the_key_have_its_types(name):
    found = [field for field in SHAPES[name] if field.name in KEYS]
    assert found
    for field in found:
        assert field.type == key_type(field.name), field.name
        assert field.metadata[b"comment"]


def test_the_key_of_a_message_leads_its_table():
    names = [field.name for field in KEY]
    assert names[:5] == [*STREAM_KEY, *MESSAGE_KEY]
    assert MESSAGE_KEY[:2] == PACKET_KEY


def test_decoded_files_have_the_same_key_with_coded_names():
    for field in key_schema():
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        assert kind == key_type(field.name)


def test_a_column_may_mean_more_in_one_table():
    assert key_field("channel").metadata == {b"comment": b"Channel."}
    assert key_field("channel", "Its channel.").metadata == {b"comment": b"Its channel."}
    assert key_field("channel", "Its channel.").equals(key_field("channel"))
