"""Settings that are deep, long, no files, or at the extremes: an error, never a traceback."""

import copy
import math
import os
import random
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from pregao.cli.config import read_configuration
from pregao.errors import UsageError
from pregao.exchange.engine.model.instrument_loader import load_catalogue, parse_catalogue
from pregao.exchange.engine.model.schedule import load_schedule, parse_schedule
from pregao.exchange.host.settings import parse_settings, read_settings
from pregao.exchange.traders.profiles import load_profile, parse_profile
from pregao.live.config import parse_config, read_config

READERS = {
    "catalogue": load_catalogue,
    "schedule": load_schedule,
    "exchange": read_settings,
    "profile": lambda path: load_profile(str(path)),
    "live": read_config,
    "configuration": read_configuration,
}
DEEP = 100_000
TOML = {
    "deep lists": ("lake = " + "[" * DEEP, "nested|recursion|TOML|valid"),
    "deep tables": ("lake = " + "{a=" * DEEP, "nested|recursion|TOML|valid"),
    "a key of many parts": ("a." * DEEP + "b = 1", "a key has more than 64 parts"),
    "digits": ("lake = " + "9" * 5_000, "digits|bits"),
    "hexadecimal digits": ("lake = 0x" + "f" * 5_000, "an integer has more than 128 bits"),
    "65 levels": ("lake = " + "[" * 65 + "]" * 65, "nested more than 64 levels deep"),
    "no UTF-8": (b"lake = '\xff'", "UTF-8"),
    "long": (b"#" * (17 << 20), "larger than 16,777,216 bytes"),
}


def refused(read, path):
    with pytest.raises(UsageError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_file_of_settings_is_read_within_bounds(reader, tmp_path):
    path = tmp_path / "settings.toml"
    for name, (text, reason) in TOML.items():
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        sentence = refused(READERS[reader], path)
        assert any(each in sentence for each in reason.split("|")), (name, sentence[:300])


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_file_of_settings_must_be_a_regular_file(reader, tmp_path):
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    endless = tmp_path / "endless.toml"
    endless.symlink_to("/dev/zero")
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    for path in (pipe, endless, folder):
        assert "regular file" in refused(READERS[reader], path) or path == folder


def test_a_catalogue_in_json_is_read_within_the_same_bounds(tmp_path):
    path = tmp_path / "catalogue.json"
    for text in ("[" * DEEP, '{"a":' * DEEP, '{"a": ' + "9" * 5_000 + "}", '{"a": NaN}', "[]"):
        path.write_text(text)
        refused(load_catalogue, path)


def bundled(name):
    found = Path(parse_catalogue.__code__.co_filename).parents[2] / name
    return tomllib.loads(found.read_text("utf-8"), parse_float=Decimal)


def first_instruments():
    document = bundled("engine/model/catalogue.toml")
    return {
        name: table[:2] if isinstance(table, list) else table for name, table in document.items()
    }


EXCHANGE = """
phases = "open"
seed = 1
[gateway]
primary = "127.0.0.1:9610"
backup = "127.0.0.1:9611"
max_unread_bytes = 1000000
clock_tolerance_ms = 1000
[risk]
delay_us = 5
jitter_us = 1
[feed]
mode = "none"
schema_version = 16
[[session]]
id = 100000001
firm = 85
access_key = "123456789ABC"
throttle_messages = 10
throttle_ms = 1000
traders = ["A"]
accounts = [1]
"""
LIVE = """
interface = "lo"
buffer_bytes = 1_000_000
[channel.51]
reorder_time = "5ms"
reorder_packets = 7
[channel.51.incremental]
A = "233.252.14.1:30511"
B = { address = "233.252.14.2:30512", interface = "127.0.0.1", source = "198.51.100.12" }
[channel.51.snapshot]
A = "233.252.14.3:30513"
[channel.51.definition]
A = "233.252.14.4:30514"
"""
SCHEDULE = """
timezone = -3
[[schedule.default]]
time = "09:00:00"
phase = "RESERVED"
session = "REGULAR"
new_session = true
[schedule.default.auction]
duration = 600
extension = 30
window = 60
extensions = 2
protection = 5
binding = true
"""
PARSED = {
    "catalogue": (first_instruments, lambda data: parse_catalogue(data, "x.toml")),
    "profile": (lambda: next(iter(tomllib.loads(
        (Path(parse_profile.__code__.co_filename).parent / "profiles.toml").read_text("utf-8")
    ).values())), lambda data: parse_profile("p", data, "x.toml")),
    "exchange": (lambda: tomllib.loads(EXCHANGE), lambda data: parse_settings(data, "x.toml")),
    "schedule": (lambda: tomllib.loads(SCHEDULE), lambda data: parse_schedule(data, "x.toml")),
    "live": (lambda: tomllib.loads(LIVE), lambda data: parse_config(data, "x.toml")),
}  # fmt: skip
EXTREMES = [
    math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"),
    Decimal("1e999999"), Decimal("-1e-999999"), 1e308, True, False, -1, 0, 2**63, -(2**63), 2**100,
    "", "\x1b[31m", "x" * 10_000, [], {}, [[]], [None], {"a": 1}, [0] * 20_000,
]  # fmt: skip


def value_paths(data, path=()):
    """The paths to all values of a document."""
    yield path
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from value_paths(value, (*path, key))
        else:
            yield (*path, key)


def replaced(data, path, value):
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("reader", sorted(PARSED))
def test_values_at_the_extremes_are_refused_in_one_line(reader):
    make, parse = PARSED[reader]
    data = make()
    parse(data)
    refusals = 0
    found = [path for path in value_paths(data) if path]
    chosen = random.Random(reader).sample(found, min(len(found), 100))
    for path in chosen:
        for value in EXTREMES:
            try:
                parse(replaced(data, path, value))
            except UsageError as error:
                assert "x.toml" in str(error)  # noqa: PT017 - most of them are raised
                refusals += 1
    assert refusals > 4 * len(chosen)
