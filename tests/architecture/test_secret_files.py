"""Files with secrets: one reader, which refuses what another user could have read or written."""

import os
from pathlib import Path

import pytest

from pregao.errors import UsageError
from pregao.exchange.host.admin import control_server
from pregao.safe_io import private_files
from pregao.safe_io.private_files import SecretFileError, read_secret
from pregao.safe_io.urls import MAX_CREDENTIALS_BYTES, read_credentials
from pregao.web import origin_guard

MAX_BYTES = 400
SECRET = b"aws_access_key_id = A\naws_secret_access_key = B\n"


def make_file(folder, kind):
    """Make a file, or another thing, that breaks one rule."""
    path = folder / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    if kind == "link":
        path.rename(folder / "other")
        path.symlink_to("other")
    elif kind == "pipe":
        path.unlink()
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.unlink()
        path.mkdir(0o700)
    elif kind == "missing":
        path.unlink()
    elif kind == "large":
        path.write_bytes(b"#" * (MAX_CREDENTIALS_BYTES + 1))
    elif isinstance(kind, int):
        path.chmod(kind)
    return path


BROKEN = {
    "link": "cannot be read: it is a symbolic link",
    "missing": "cannot be read: No such file or directory",
    "pipe": "is not a regular file",
    "folder": "is not a regular file",
    "large": "has more than ",
    "another": "belongs to user 12345; it must be yours or root's",
    **{
        0o600 | bit: f"is open to others (mode {0o600 | bit:04o}); `chmod 600` closes it"
        for bit in (0o40, 0o20, 0o10, 0o4, 0o2, 0o1)
    },
}
READERS = {
    "read_secret": lambda path: read_secret(path, MAX_BYTES),
    "control token": control_server.read_token,
    "token of a page": origin_guard.read_token,
    "keys of S3": lambda path: read_credentials(str(path)),
}


def owned_by(user, monkeypatch):
    """Make files appear to belong to a user; only root can give them away."""
    real = os.fstat

    def fstat(descriptor):
        fields = list(real(descriptor))
        fields[4] = user
        return os.stat_result(fields)

    monkeypatch.setattr(private_files.os, "fstat", fstat)


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_a_secret_that_is_not_ours_alone(tmp_path, monkeypatch, reader, kind):
    path = make_file(tmp_path, kind)
    if kind == "another":
        owned_by(12345, monkeypatch)
    with pytest.raises((SecretFileError, UsageError)) as refused:
        READERS[reader](path)
    assert BROKEN[kind] in str(refused.value)
    assert (str(path) in str(refused.value)) is (reader != "read_secret")


@pytest.mark.parametrize("user", [0, os.geteuid()])
@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_secret_of_ours_or_of_root_is_read(tmp_path, monkeypatch, user, mode):
    path = make_file(tmp_path, mode)
    owned_by(user, monkeypatch)
    assert read_secret(path, len(SECRET)) == SECRET
    with pytest.raises(SecretFileError, match=f"has more than {len(SECRET) - 1} bytes"):
        read_secret(path, len(SECRET) - 1)


def test_a_refused_secret_keeps_its_mode_and_its_descriptor_is_closed(tmp_path):
    path = make_file(tmp_path, 0o644)
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        with pytest.raises(SecretFileError):
            read_secret(path, MAX_BYTES)
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_rules_of_secret_files_are_in_one_module():
    found = [
        path.name
        for path in Path(private_files.__file__).parent.rglob("*.py")
        if "st_uid" in (text := path.read_text()) and "O_NOFOLLOW" in text
    ]
    assert found == ["private_files.py"]
