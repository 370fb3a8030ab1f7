"""Locations: a user's text names one location, on any filesystem, in any process."""

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.capture import PcapWriter, read_packets
from pregao.errors import UsageError
from pregao.lake.ingest.discovery import find_captures, is_capture_name
from pregao.lake.storage.filesystem import Location, unique_name

PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/\0?"), min_size=1, max_size=12)
PARTS = PARTS.filter(lambda part: part not in (".", "..", "~"))


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 7)


def names(entries, root):
    return [os.path.relpath(entry.location.uri, root) for entry in entries]


@given(st.lists(PARTS, min_size=1, max_size=4), st.sampled_from(["/", "s3://bucket/", "gs://b/"]))
def test_joining_and_going_up_are_inverse(parts, root):
    location = Location.parse(root)
    below = location.join(*parts)
    assert below.name == parts[-1]
    assert below.relative_to(location) == "/".join(parts)
    above = below
    for _ in parts:
        above = above.parent
    assert above == location


@given(PARTS)
def test_a_location_survives_a_pickle_with_what_opens_it(part):
    environment = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hush"}
    location = Location.parse("s3://bucket", environment).join(part)
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert again.storage_options["AWS_SECRET_ACCESS_KEY"] == "hush"
    assert "hush" not in repr(again)
    assert "hush" not in str(again)


def test_a_local_path_is_absolute_and_one_location_has_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Location.parse("a/../b").uri == str(tmp_path / "b")
    assert Location.parse(".").uri == str(tmp_path)
    assert Location.parse("..").uri == str(tmp_path.parent)
    assert Location.parse("~/lake").uri == str(tmp_path / "home" / "lake")
    assert Location.parse(f"file://{tmp_path}/a%20b/").uri == str(tmp_path / "a b")
    location = Location.parse(tmp_path)
    assert Location.parse(location) is location
    assert (location.is_local, location.path, location.delta_uri) == (True, *[str(tmp_path)] * 2)
    assert location.storage_options == {}


def test_s3_takes_its_settings_from_the_environment():
    environment = {
        "AWS_DEFAULT_REGION": "sa-east-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000/",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }
    location = Location.parse("s3a://bucket/a b/", environment)
    assert location.uri == "s3://bucket/a b"
    assert location.path == "bucket/a b"
    assert location.delta_uri == "s3://bucket/a%20b"
    assert location.storage_options == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "sa-east-1",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }


def test_s3_takes_its_settings_from_the_uri_too():
    location = Location.parse(
        "s3://key:se%2Fcret@bucket/lake?endpoint_override=127.0.0.1:9000&scheme=http&region=x",
        {"AWS_SESSION_TOKEN": "of another key", "AWS_REGION": "y"},
    )
    assert location.uri == "s3://bucket/lake"
    assert location.storage_options == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "x",
        "AWS_SECRET_ACCESS_KEY": "se/cret",
    }
    anonymous = Location.parse("s3://bucket?anonymous=1", {"AWS_ENDPOINT_URL": "store.example"})
    assert anonymous.storage_options == {
        "AWS_ENDPOINT_URL": "https://store.example",
        "AWS_REGION": "us-east-1",
        "AWS_SKIP_SIGNATURE": "true",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A location is empty"),
        ("s3:///lake", "has no bucket"),
        ("gs://", "has no bucket or host"),
        ("s3://bucket/lake?regoin=x", "unknown option 'regoin' of an s3 URI; options are region"),
    ],
)
def test_a_typing_error_is_reported(text, message):
    with pytest.raises(UsageError, match=message):
        Location.parse(text)


def test_other_schemes_are_opened_by_pyarrow():
    location = Location.parse("gs://bucket/lake/?retry_limit_seconds=1")
    assert location.uri == "gs://bucket/lake"
    assert location.join("orders").path == "bucket/lake/orders"
    assert location.filesystem.type_name == "gcs"
    with pytest.raises(UsageError, match=r"nope://x cannot be opened: .*nope"):
        _ = Location.parse("nope://x/y").filesystem


def test_hdfs_without_its_library_reports_what_it_needs(monkeypatch):
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    with pytest.raises(UsageError, match="HDFS needs libhdfs: set HADOOP_HOME"):
        Location.parse("hdfs://127.0.0.1:9/lake").exists()


def test_files_are_written_read_listed_and_removed(tmp_path):
    location = Location.parse(tmp_path / "new" / "folder")
    assert location.entries() == []
    assert not location.exists()
    file = location.join(unique_name("part", ".bin"))
    file.write_bytes(b"12345")
    (entry,) = location.entries()
    assert (entry.location, entry.size, entry.is_folder) == (file, 5, False)
    assert entry.modified_ns > 0
    with file.open_input() as opened:
        assert opened.read_at(2, 1) == b"23"
    file.delete()
    file.delete()
    assert location.entries() == []
    location.delete_folder()
    location.delete_folder()
    assert not location.exists()
    with pytest.raises(UsageError, match="cannot be read: "):
        file.read_bytes()


def test_a_location_is_a_source_of_captures(tmp_path):
    path = tmp_path / "x.pcap"
    with PcapWriter(path) as writer:
        writer.write(1, b"frame")
    with read_packets(Location.parse(path).source) as packets:
        assert [bytes(packet.data) for packet in packets] == [b"frame"]


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("x.pcap", True),
        ("X.PCAPNG", True),
        ("x.pcap12", True),
        ("x.cap.gz", True),
        ("x.pcap3.zst", True),
        ("x.pcap.part", False),
        (".x.pcap", False),
        ("_x.pcap", False),
        ("x.txt", False),
    ],
)
def test_captures_in_a_folder_are_known_by_their_names(name, taken):
    assert is_capture_name(name) is taken


def test_files_folders_and_patterns_name_captures(tmp_path):
    touch(
        tmp_path / "odd.bin",
        *(tmp_path / "day1" / f"x.pcap{number}" for number in ("", 1, 2, 10)),
        tmp_path / "day2" / "a" / "y.pcapng.gz",
        tmp_path / "day2" / "notes.txt",
        tmp_path / "day2" / ".hidden.pcap",
    )
    rolled = ["day1/x.pcap", "day1/x.pcap1", "day1/x.pcap2", "day1/x.pcap10"]

    def found(*named):
        return names(find_captures([str(tmp_path / name) for name in named]), tmp_path)

    assert found("odd.bin") == ["odd.bin"]
    assert found("day1") == rolled
    assert found("") == [*rolled, "day2/a/y.pcapng.gz"]
    assert found("day1/x.pcap?") == rolled[1:3]
    assert found("day?") == [*rolled, "day2/a/y.pcapng.gz"]
    assert found("**/y.*") == ["day2/a/y.pcapng.gz"]
    assert found("**") == [*rolled, "day2/a/y.pcapng.gz"]
    assert found("day[2]/a/*") == ["day2/a/y.pcapng.gz"]
    assert found("*/a/y.pcapng.gz") == ["day2/a/y.pcapng.gz"]
    assert found("day1/x.pcap2", "day1") == ["day1/x.pcap2", *rolled[:2], rolled[3]]
    entry = find_captures([tmp_path / "odd.bin"])[0]
    assert entry.size == 7


def test_a_name_with_brackets_that_is_there_is_no_pattern(tmp_path):
    touch(tmp_path / "x[1].pcap")
    assert names(find_captures([str(tmp_path / "x[1].pcap")]), tmp_path) == ["x[1].pcap"]


@pytest.mark.parametrize("name", ["none.pcap", "empty", "*.pcapng", "none/*/x.pcap", "**/*.cap"])
def test_a_name_that_gives_nothing_is_an_error(tmp_path, name):
    (tmp_path / "empty").mkdir()
    touch(tmp_path / "other.txt")
    with pytest.raises(UsageError, match="no captures found"):
        find_captures([str(tmp_path / name)])
