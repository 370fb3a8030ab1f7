"""The configuration: what is followed, and errors with their location."""

import tomllib
from dataclasses import replace
from datetime import date, datetime
from datetime import time as daytime

import pytest

from pregao.clock import MILLISECOND
from pregao.errors import UsageError
from pregao.live import parse_config, read_config
from pregao.umdf.streams import Stream
from tests.live.config_text import config_text

GOOD = """
interface = "lo"
buffer_bytes = 1_000_000

[channel.51]
reorder_time = "5ms"
reorder_packets = 7

[channel.51.incremental]
A = "233.252.14.1:30511"
B = { address = "233.252.14.2:30512", interface = "127.0.0.1", source = "198.51.100.12" }
C = "233.252.15.2:30512"

[channel.51.snapshot]
A = "233.252.14.3:30513"
C = "233.252.15.3:30513"

[channel.51.definition]
A = "233.252.14.4:30514"
C = "233.252.15.4:30514"

[channel.72.incremental]
A = "233.252.14.1:30721"
[channel.72.snapshot]
A = "233.252.14.3:30723"
[channel.72.definition]
A = "233.252.14.4:30724"
"""


def parsed(text):
    return parse_config(tomllib.loads(text), "live.toml")


def test_the_settings_of_a_file_are_followed(tmp_path):
    path = tmp_path / "live.toml"
    path.write_text(GOOD)
    config = read_config(path)
    first, second = config.channels
    assert (first.number, first.feeds, first.backup) == (51, ("A", "B"), ("C",))
    assert (first.reorder_ns, first.reorder_packets) == (5 * MILLISECOND, 7)
    assert (second.number, second.feeds, second.backup) == (72, ("A",), ())
    assert config.buffer_bytes == 1_000_000
    lines = {(line.channel, line.stream, line.feed): line for line in config.lines}
    assert len(lines) == len(config.lines) == 10
    b = lines[51, Stream.INCREMENTAL, "B"]
    assert (str(b.address), b.interface, b.source) == (
        "233.252.14.2:30512",
        "127.0.0.1",
        "198.51.100.12",
    )
    assert lines[72, Stream.DEFINITION, "A"].interface == "lo"
    assert parsed(config_text(config)) == replace(config, name="live.toml")


def test_some_channels_can_be_chosen():
    config = parsed(GOOD)
    assert config.only(None) is config
    chosen = config.only([72])
    assert [each.number for each in chosen.channels] == [72]
    assert {line.channel for line in chosen.lines} == {72}
    with pytest.raises(UsageError, match=r"live.toml has no channel 99; it has 51, 72\."):
        config.only([99, 51])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("interface", "interfaces", "interfaces is not a known entry. Did you mean interface"),
        ('"lo"', "7", "interface must be a non-empty string, was 7"),
        ("1_000_000", "1", "buffer_bytes must be an integer from 4096"),
        ("channel.51", "channel.300", r"channel\.300 is not a channel: .* 0 to 255"),
        ("channel.51", "channel.x", r"channel\.x is not a channel"),
        ('"5ms"', '"soon"', r"channel\.51 reorder_time must be a duration such as 500ms"),
        ("= 7", '= "7"', r"channel\.51\.reorder_packets must be an integer"),
        ("= 7", "= 0", r"channel\.51 cannot be followed: .*reorder_packets must be above 0"),
        ("reorder_packets", "reorder", r"channel\.51\.reorder is not a known entry. Did"),
        (
            "reorder_packets",
            "most_held",
            r"channel\.51\.most_held .* Entries are .*max_held_packets",
        ),
        (
            "reorder_packets",
            "most_queued",
            r"most_queued is not a known entry. .*max_queued_messages",
        ),
        ("reorder_packets", "most_queued_in_all", r"in_all is .*\. Did you mean max_queued_total"),
        ("[channel.51.snapshot]", "[channel.51.snapshots]", r"channel\.51\.snapshot is missing"),
        ('"233.252.14.1:30511"', '"233.252.14.1"', r"channel\.51\.incremental A takes ADDRESS:PO"),
        ('"233.252.14.1:30511"', '"a.b:1"', r"incremental A: 'a.b' is not an IPv4 address"),
        ('"233.252.14.1:30511"', "5", r"incremental\.A must be .ADDRESS:PORT. or a table"),
        ("address = ", "adress = ", r"B\.adress is not a known entry\. Did you mean add"),
        ('"198.51.100.12"', '"x"', r"channel\.51\.incremental source: 'x' is not an IPv4"),
        ('C = "233.252.15.3', 'B = "233.252.15.3', r"channel\.51\.snapshot\.C is missing: feed C"),
        ("B = {", "b = {", r"incremental\.b is not a feed"),
        ("14.2:30512", "14.1:30511", "channel 51, incremental A .* have the same address"),
    ],
)
def test_errors_name_their_location(before, after, words):
    text = GOOD.replace(before, after, 1)
    if before == "14.2:30512":
        text = text.replace("127.0.0.1", "lo")
    with pytest.raises(UsageError, match=rf"live\.toml: .*{words}"):
        parsed(text)


def test_files_that_are_none(tmp_path):
    with pytest.raises(UsageError, match=r"nothing\.toml: there is no such file"):
        read_config(tmp_path / "nothing.toml")
    with pytest.raises(UsageError, match="is not valid TOML: it is not a regular file"):
        read_config(tmp_path)
    for content in (b"[", b"\xff\xfe"):
        (tmp_path / "x.toml").write_bytes(content)
        with pytest.raises(UsageError, match=r"x.toml: is not valid TOML"):
            read_config(tmp_path / "x.toml")
    with pytest.raises(UsageError, match="has no channels"):
        parsed("")


@pytest.mark.parametrize("name", ["spin", "realtime"])
def test_switches_are_true_or_false(name):
    assert not getattr(parsed(GOOD), name)
    config = parsed(f"{name} = true\n{GOOD}")
    assert getattr(config, name)
    assert getattr(parsed(config_text(config)), name)
    with pytest.raises(UsageError, match=f"{name} must be true or false, was 1"):
        parsed(f"{name} = 1\n{GOOD}")


LEGACY = """
[channel.10]
protocol = "legacy"
platform = "PUMA"
market_depth = 5
process = "other"
[channel.10.incremental]
A = "233.252.16.1:30101"
[channel.10.snapshot]
A = "233.252.16.3:30103"
[channel.10.definition]
A = "233.252.16.4:30104"
[channel.10.recovery]
A = "10.0.0.1:9620"
sender = "CUSTOMER"
target = "BVMF"
"""
EVERY_KEY = (
    """
spin = true
realtime = false
"""
    + GOOD.replace(
        "reorder_packets = 7",
        '''reorder_packets = 7
heartbeat = "2s"
max_held_packets = 9
max_queued_messages = 8
max_queued_total = 11
max_instruments = 12
backup = ["C"]
process = "one"''',
    )
    + LEGACY
)
WRONG = [
    0, -1, 1, 1 << 70, 1.5, float("nan"), float("inf"), True, "", "A", "\x00", "9" * 5000,
    "9" * 400 + "ms", "1:" + "9" * 5000, [], [[]], ["A"], [["A"]], [{}], [1, "A"], ["A", "A"], {},
    {"A": {}}, {"A": []}, {"": 1}, {"7": {}}, {"9" * 5000: {}}, date(2026, 5, 21),
    datetime(2026, 5, 21), daytime(1),
]  # fmt: skip
"""Values of every type of TOML, hardly one of which suits an entry."""


def paths_of(table, before=()):
    """The keys of every entry, tables included."""
    for key, value in table.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from paths_of(value, (*before, key))


@pytest.mark.parametrize("path", list(paths_of(tomllib.loads(EVERY_KEY))), ids=".".join)
def test_a_wrong_value_anywhere_is_a_usage_error(path):
    refused = 0
    for value in WRONG:
        data = tomllib.loads(EVERY_KEY)
        table = data
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value
        try:
            parse_config(data, "live.toml")
        except UsageError:
            refused += 1
    assert refused >= len(WRONG) // 2


@pytest.mark.parametrize("backup", [[["A"]], [{}], [1], "A", {"A": 1}])
def test_a_backup_is_a_list_of_feeds(backup):
    data = tomllib.loads(GOOD)
    data["channel"]["51"]["backup"] = backup
    with pytest.raises(UsageError, match=r"channel\.51\.backup must be a list of the incremental"):
        parse_config(data, "live.toml")


@pytest.mark.parametrize("number", ["007", "07", "00", "0255"])
def test_a_channel_is_numbered_in_one_way(number):
    text = GOOD.replace("channel.72", f"channel.{number}")
    with pytest.raises(UsageError, match=rf"channel\.{number} is not a channel"):
        parsed(text)


def test_a_configuration_as_text_is_read_as_it_was():
    config = parsed(EVERY_KEY)
    assert parsed(config_text(config)) == config


def test_002_5_2_any_feed_of_a_legacy_channel_may_have_the_loops():
    addresses = iter(range(30_000, 30_010))

    def feeds(names):
        return {name: f"233.252.14.1:{next(addresses)}" for name in names}

    table = {"protocol": "legacy", "incremental": feeds("AB"), "snapshot": feeds("B")}
    table["definition"] = feeds("AB")
    (settings,) = parse_config({"channel": {"10": table}}).channels
    assert settings.legacy.snapshot_feeds == ("B",)
    assert settings.legacy.definition_feeds == ("A", "B")
    table["snapshot"] = feeds("C")
    with pytest.raises(UsageError, match=r"channel\.10\.snapshot\.C has no incremental stream"):
        parse_config({"channel": {"10": table}})
    del table["snapshot"]
    with pytest.raises(UsageError, match=r"channel\.10\.snapshot is missing"):
        parse_config({"channel": {"10": table}})
