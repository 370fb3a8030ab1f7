"""Captures as rows: every message as captured, options decided before anything is decoded."""

import gzip
import json
from collections import Counter
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import PcapWriter, datagrams, read_packets, udp_frame
from pregao.errors import SchemaError, UsageError
from pregao.lake.datasource.options import parse_request, parse_size
from pregao.lake.datasource.range_reader import RangeReader, ranges_of, streams_of
from pregao.lake.datasource.row_shapes import check_selection, shape_of
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.packets import PacketDecoder
from tests.lake.days import day
from tests.sbe.support import shown
from tests.umdf.survey_support import CODEC, payload


def small_day():
    return day(duration="20s")


def read(path, **options):
    """The rows of captures as one table."""
    request = parse_request({"path": str(path), **options})
    parts = ranges_of(request)
    streams = streams_of([part.location for part in parts], request.registry())
    reader = RangeReader(request, streams)
    schema = shape_of(request).schema.remove_metadata()
    return pa.Table.from_batches([b for part in parts for b in reader.read(part)], schema)


@cache
def plain(template):
    """The rows of the day, with where they stood."""
    names = shape_of(parse_request({"path": "-", "template": template})).schema.names
    columns = ",".join(dict.fromkeys([*names, "capture", "position"]))
    return read(small_day(), template=template, columns=columns)


@cache
def packets_of_day():
    found = []
    for capture in sorted(small_day().glob("*.pcap")):
        with read_packets(capture) as reader:
            found += [(capture.name, datagram) for datagram in datagrams(reader)]
    return found


@cache
def templates_of_day():
    """The templates in the captures, and how many messages of each there are."""
    decoder = PacketDecoder()
    return Counter(
        outcome.decoded.message.name
        for _, datagram in packets_of_day()
        for outcome in decoder.decode(datagram.payload).outcomes
    )


def test_every_message_of_every_template_is_a_row_equal_to_the_codec():
    decoder = PacketDecoder()
    wanted: dict[str, list] = {}
    for name, datagram in packets_of_day():
        packet = decoder.decode(datagram.payload)
        header = packet.header
        for outcome in packet.outcomes:
            key = {
                "channel": header.channel,
                "sequence_version": header.sequence_version,
                "sequence_number": header.sequence_number or None,
                "sending_time_ns": header.sending_time_ns,
                "capture_time_ns": datagram.time_ns,
                "destination": f"{datagram.flow.dst}:{datagram.flow.dst_port}",
                "index_in_packet": outcome.frame.index_in_packet,
                "schema_version": outcome.frame.version,
                "capture": name,
                "position": datagram.position,
            }
            message = outcome.decoded.message
            values = shown(message, outcome.decoded.values)
            wanted.setdefault(message.name, []).append(key | values)
    assert len(wanted) > 12
    for template, messages in wanted.items():
        found = plain(template).to_pylist()
        sort_names = ("capture", "position", "index_in_packet")
        found.sort(key=lambda row: [row[name] for name in sort_names])
        messages.sort(key=lambda row: [row[name] for name in sort_names])
        assert len(found) == len(messages), template
        for row, message in zip(found, messages, strict=True):
            assert {name: in_common(row[name], message[name]) for name in message} == message


def in_common(found, wanted):
    """A value without the members that only other schema versions have."""
    if isinstance(wanted, list):
        return [in_common(a, b) for a, b in zip(found, wanted, strict=True)]
    if isinstance(wanted, dict):
        return {name: in_common(found[name], wanted[name]) for name in wanted}
    return found


def test_the_stream_is_that_of_the_destination():
    for template in templates_of_day():
        table = plain(template).select(["capture", "stream"]).to_pylist()
        for row in table:
            expected = {"Inc": "incremental", "Sna": "snapshot", "Ins": "definition"}
            assert row["stream"] == expected[row["capture"].partition("_")[2][:3]]


@pytest.mark.parametrize("template", ["50", "messages", "packets"])
@pytest.mark.parametrize("size", ["4k", "100k"])
def test_any_cutting_gives_the_same_rows(template, size):
    columns = ",".join(plain(template).column_names)
    cut = read(small_day(), template=template, columns=columns, rangeSize=size)
    assert as_rows(cut) == as_rows(plain(template))


def as_rows(table):
    key = ("capture", "position", "index_in_packet")
    return sorted(
        table.to_pylist(), key=lambda row: [-1 if (v := row.get(n)) is None else v for n in key]
    )


WITH_INSTRUMENTS = ["50", "51", "55", "12", "3"]


@st.composite
def selections(draw, template):
    """Options that choose rows, their values mostly such as there are."""
    table = plain(template)

    def there(column):
        return sorted(v for v in table.column(column).unique().to_pylist() if v is not None)

    options = {}
    if draw(st.booleans()):
        chosen = st.sampled_from([*there("channel"), 200])
        options["channel"] = draw(st.lists(chosen, min_size=1, max_size=2))
    if draw(st.booleans()):
        chosen = st.sampled_from(["incremental", "snapshot", "definition"])
        options["stream"] = draw(st.lists(chosen, min_size=1, max_size=2))
    if template in WITH_INSTRUMENTS and draw(st.booleans()):
        chosen = st.sampled_from([*there("security_id"), 0, 5, (1 << 64) - 1])
        options["securityId"] = draw(st.lists(chosen, min_size=1, max_size=3))
    times = st.sampled_from(there("capture_time_ns"))
    begin, end = sorted(draw(st.tuples(times, times)))
    if draw(st.booleans()):
        options["since"] = [begin]
    if draw(st.booleans()):
        options["until"] = [draw(st.sampled_from([end + 1, 1 << 62, 1 << 80]))]
    return options


COLUMNS = {"channel": "channel", "stream": "stream", "securityId": "security_id"}


def chosen_by(options, row):
    """Meaning of the options, in Python."""
    time = row["capture_time_ns"]
    if "since" in options and time < options["since"][0]:
        return False
    if "until" in options and time >= options["until"][0]:
        return False
    return all(row[COLUMNS[name]] in options[name] for name in options.keys() & COLUMNS.keys())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_options_choose_the_rows_that_they_name(data):
    template = data.draw(st.sampled_from([*WITH_INSTRUMENTS, "2", "packets"]))
    wanted = data.draw(selections(template))
    columns = ",".join(plain(template).column_names)
    texts = {name: ",".join(map(str, values)) for name, values in wanted.items()}
    found = read(small_day(), template=template, columns=columns, **texts)
    expected = [row for row in as_rows(plain(template)) if chosen_by(wanted, row)]
    assert as_rows(found) == expected


def test_a_null_instrument_is_never_chosen(tmp_path):
    """News may be about no instrument: 0 on the wire is null."""
    path = tmp_path / "news.pcap"
    with PcapWriter(path) as writer:
        for number, about in enumerate([None, 7, None], 1):
            values = {
                "securityID": about,
                "newsSource": 20,
                "partCount": 1,
                "partNumber": 1,
                "matchEventIndicator": 0,
            }
            texts = {"totalTextLength": 0, "headline": "", "text": "", "uRLLink": ""}
            news = payload(number, [CODEC.encode("News_5", {**values, **texts})])
            writer.write(number, udp_frame("10.0.0.1", 30000, "233.252.14.1", 30001, news))
    everything = read(path, template="5", columns="security_id")
    assert everything.column("security_id").to_pylist() == [None, 7, None]
    assert read(path, template="5", securityId="0").num_rows == 0
    assert read(path, template="5", securityId="0,7").num_rows == 1


def test_an_instrument_is_chosen_among_messages_of_all_templates():
    number = plain("50").column("security_id")[0].as_py()
    found = as_rows(read(small_day(), securityId=str(number)))
    everything = as_rows(read(small_day()))
    assert found == [
        row for row in everything if json.loads(row["body"]).get("security_id") == number
    ]
    assert len({row["template"] for row in found}) > 3
    assert len(found) < len(everything)


def test_times_are_read_as_people_write_them():
    first = min(plain("50").column("capture_time_ns").to_pylist())
    request = parse_request({"path": "day", "since": "2026-05-21T13:00:00.5-03:00"})
    assert request.from_ns == 1779379200500000000
    assert parse_request({"path": "day", "until": str(first)}).to_ns == first


@pytest.mark.parametrize("digits", [20, 21, 101, 4_300, 4_301, 10_000])
@pytest.mark.parametrize(
    "option",
    ["channel", "securityId", "maxFilesPerBatch", "maxBytesPerBatch", "rangeSize", "from", "to",
     "holdback", "quietPeriod"],
)  # fmt: skip
def test_a_number_of_many_digits_is_a_usage_error(option, digits):
    for text in ("9" * digits, "9" * digits + "g"):
        if option in ("from", "to") and text.isdigit() and digits <= 4_300:
            continue  # a time is any number of nanoseconds that Python can read
        with pytest.raises(UsageError, match=option):
            parse_request({"path": "day", option: text})


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64m", 64 << 20), ("1 GiB", 1 << 30), ("8589934591g", ((1 << 33) - 1) << 30)],
)
def test_sizes_are_read_up_to_63_bits(text, size):
    assert parse_size(text, "rangeSize") == size
    for wrong in ("0", "0g", "8589934592g", "\u0661", "", "m", "-1"):
        with pytest.raises(UsageError, match="rangeSize must be a size"):
            parse_size(wrong, "rangeSize")


def test_all_messages_have_their_fields_as_json():
    everything = plain("messages")
    assert Counter(everything.column("template").to_pylist()) == templates_of_day()
    assert everything.column("error").null_count == everything.num_rows
    for template in ("Order_MBO_50", "SecurityDefinition_12", "Sequence_2"):
        typed = as_rows(plain(template))
        generic = [row for row in as_rows(everything) if row["template"] == template]
        assert len(typed) == len(generic) > 0
        for row, message in zip(typed, generic, strict=True):
            body = json.loads(message["body"])
            assert message["capture_time_ns"] == row["capture_time_ns"]
            for name, value in body.items():
                assert in_common(plain_json(row[name]), value) == value


def plain_json(value):
    if isinstance(value, list):
        return [plain_json(each) for each in value]
    if isinstance(value, dict):
        return {name: plain_json(each) for name, each in value.items()}
    if value is None or isinstance(value, int | str | float):
        return value
    return value.hex() if isinstance(value, bytes) else f"{value}"


def test_the_bytes_of_a_message_are_those_on_the_wire():
    payloads = {(name, d.position): d.payload for name, d in packets_of_day()}
    decoder = PacketDecoder()
    for row in as_rows(plain("messages"))[:500]:
        payload = payloads[row["capture"], row["position"]]
        frame = decoder.decode(payload).outcomes[row["index_in_packet"]].frame
        assert row["bytes"] == payload[frame.position : frame.end]


def damaged(tmp_path):
    """A capture with an impossible message, an unknown template, and packets that break off."""
    decoder = PacketDecoder()
    whole = next(
        datagram.payload
        for _, datagram in packets_of_day()
        if [m.message.id for m in decoder.decode(datagram.payload).messages] == [50]
    )
    unknown = bytearray(whole)
    unknown[22:24] = (49).to_bytes(2, "little")
    old = bytearray(whole)
    old[26:28] = (1).to_bytes(2, "little")
    path = tmp_path / "damaged.pcap"
    with PcapWriter(path) as writer:
        for number, payload in enumerate(
            [whole, bytes(unknown), bytes(old), whole[:-3], b"noise", whole]
        ):
            frame = udp_frame("10.0.0.1", 30000, "233.252.14.1", 30001, payload)
            writer.write(1_000_000_000 + number, frame)
    return path


def test_what_cannot_be_decoded_has_an_error(tmp_path):
    path = damaged(tmp_path)
    everything = read(path).to_pylist()
    errors = [row for row in everything if row["error"] is not None]
    assert len(errors) == 3
    assert {row["capture_time_ns"] % 10 for row in errors} == {2, 3, 4}
    assert all(row["body"] is None and row["bytes"] for row in errors)
    unknown = [row for row in everything if row["template_id"] == 49]
    assert [(row["template"], row["body"], row["error"]) for row in unknown] == [(None, None, None)]
    assert sum(row["body"] is not None for row in everything) >= 2
    # What cannot be decoded names no instrument that could be chosen.
    number = json.loads(everything[0]["body"])["security_id"]
    whole = [row for row in everything if row["body"] is not None]
    assert read(path, securityId=str(number)).to_pylist() == whole
    packets = read(path, template="packets").to_pylist()
    assert [row["error"] is not None for row in packets] == [False, False, False, True, True, False]
    assert packets[4]["channel"] is None
    assert packets[4]["sending_time_ns"] is None


def test_the_name_of_a_template_may_be_short():
    assert read(small_day(), template="order_mbo").equals(read(small_day(), template="50"))
    both = shape_of(parse_request({"path": "-", "template": "SecurityDefinition"}))
    assert both.templates == {4, 12}


def test_channel_and_stream_are_options():
    everything = plain("packets").to_pylist()
    found = read(small_day(), template="packets", channel="51", stream="snapshot,definition")
    expected = [
        row for row in everything if row["channel"] == 51 and row["stream"] != "incremental"
    ]
    assert as_rows(found) == as_rows(pa.Table.from_pylist(expected, found.schema))
    assert 0 < found.num_rows < len(everything)


def test_compressed_captures_are_read_whole(tmp_path):
    for capture in small_day().glob("*.pcap"):
        (tmp_path / f"{capture.name}.gz").write_bytes(gzip.compress(capture.read_bytes()))
    found = read(tmp_path, template="50", rangeSize="1k")
    assert found.num_rows == plain("50").num_rows
    parts = ranges_of(parse_request({"path": str(tmp_path), "rangeSize": "1k"}))
    assert len(parts) == len(list(tmp_path.iterdir()))


def test_a_version_that_was_named_reads_every_message():
    newest = read(small_day(), template="50")
    older = read(small_day(), template="50", version="9")
    assert older.num_rows == newest.num_rows
    assert "md_entry_position_no" in older.column_names
    assert "md_entry_prev_size" not in older.column_names
    same = read(small_day(), template="50", version="16")
    assert same.equals(newest.select(same.column_names))


@pytest.mark.parametrize(
    "template", [m.id for m in Registry.bundled().newest(UMDF_SCHEMA_ID).messages if m.id]
)
def test_the_rows_of_every_template_have_the_declared_types(template):
    """Also of templates that the day does not have: an empty table of the right schema."""
    shape = shape_of(parse_request({"path": "-", "template": str(template)}))
    assert not any(pa.types.is_dictionary(field.type) for field in shape.schema)
    assert read(small_day(), template=str(template)).schema.names == shape.schema.names


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"template": "Order_MBA_50"}, "Did you mean Order_MBO_50"),
        ({"templat": "50"}, "Did you mean template"),
        ({"stream": "trades"}, "incremental, snapshot"),
        ({"channel": "x"}, "from 0 to 255"),
        ({"channel": "256"}, "from 0 to 255"),
        ({"securityId": "PETR4"}, "a number such as 100000010014, was 'PETR4'"),
        ({"securityId": str(1 << 64)}, "a number such as"),
        ({"securityId": "5", "template": "packets"}, "rows of packets have none"),
        ({"securityId": "5", "template": "2"}, "Sequence_2 messages name no instrument"),
        ({"since": "noon"}, "option since must be a time such as"),
        ({"since": "2026-05-21", "until": "2026-05-21"}, "must be later than the option since"),
        ({"columns": "channel,price"}, "no column 'price'"),
        ({"rangeSize": "0"}, "a size such as"),
        ({"maxFilesPerBatch": "0"}, "at least 1"),
        ({"holdback": "soon"}, "a duration such as"),
        ({"schema": "a.xml", "version": "9"}, "not both"),
        ({"path": ""}, "No captures given"),
        ({"path": "", "paths": "[broken"}, "must be a list of paths"),
    ],
)  # fmt: skip
def test_errors_are_one_line(options, words):
    with pytest.raises(UsageError, match=words):
        check_request(options)


def check_request(options):
    request = parse_request({"path": "day", **options})
    shape_of(request)
    check_selection(request)


def test_an_unknown_version_is_reported():
    with pytest.raises(SchemaError, match="99"):
        shape_of(parse_request({"path": "day", "template": "50", "version": "99"}))


def test_several_paths_come_as_spark_writes_them(tmp_path):
    files = sorted(small_day().glob("051_*.pcap"))
    request = parse_request({"paths": json.dumps([str(file) for file in files])})
    assert [part.location.name for part in ranges_of(request)] == [file.name for file in files]
