"""Keys in URLs reach the store and nothing else: no error, no report, no log has them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.cli.errors import sentence
from pregao.errors import UsageError
from pregao.lake.ingest.discovery import find_captures
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.safe_io.urls import redacted, with_secrets, without_secrets

KEY, SECRET = "AKIAVISIBLE", "Sup3r+Secret%2FKey"
SECRETS = (KEY, "Sup3r", "Secret/Key", "Secret%2FKey", "tokenvalue")


def unseen(text: str) -> None:
    for secret in SECRETS:
        assert secret not in text, text


def all_of(error: BaseException) -> str:
    """The text of an error and of all that a traceback would show."""
    texts = []
    shown: BaseException | None = error
    while shown is not None:
        texts.append(str(shown))
        hidden = shown.__suppress_context__
        shown = shown.__cause__ or (None if hidden else shown.__context__)
    return "\n".join(texts)


AUTHORITY = f"{KEY}:{SECRET}@"
MALFORMED = [
    f"s3://{AUTHORITY}",
    f"s3://{AUTHORITY}/lake",
    f"s3:/{AUTHORITY}bucket/lake",
    f"s3:{AUTHORITY}bucket/lake",
    f"S3:/{AUTHORITY}bucket/lake",
    f"s3://{KEY}:Sup3r/Secret/Key@bucket/lake",
    f"s3://{KEY}/Sup3r:Secret@bucket/lake",
    f"s3://{AUTHORITY}bucket/lake?regoin=tokenvalue",
    f"s3://bucket/lake?secret_key=tokenvalue&{KEY}=1"[: -len(f"&{KEY}=1")],
    f"gs://{AUTHORITY}?token=tokenvalue",
    f"nope://{AUTHORITY}bucket/lake?token=tokenvalue",
    f"hdfs://{AUTHORITY}127.0.0.1:9/lake?token=tokenvalue",
    f"abfss://:{SECRET}@127.0.0.1:9/lake?sas=tokenvalue",
    f"s3://{AUTHORITY}bucket/lake?endpoint_override=127.0.0.1:9&scheme=http&region=x",
    f"s3://{AUTHORITY}bu cket/lake?endpoint_override=127.0.0.1:9&scheme=http&region=x",
    f"s3://{AUTHORITY}bucket/lake?credentials_file=/nowhere/tokenvalue&region=x&regoin=y",
]


@pytest.fixture(autouse=True)
def quick_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("pregao.safe_io.urls._kept", {})
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("cleaned", [False, True])
def test_errors_have_no_secrets(text: str, cleaned: bool) -> None:
    with pytest.raises(UsageError) as raised:
        LakeStore(without_secrets(text) if cleaned else text).require()
    unseen(all_of(raised.value))
    unseen(sentence(raised.value))


def test_a_missing_bucket_and_missing_captures_have_none(s3_endpoint: str) -> None:
    url = f"s3://{AUTHORITY}nowhere/lake?region=tokenvalue"
    for work in (
        lambda: find_captures([url]),
        lambda: LakeStore(url).require(),
        lambda: LakeStore(url).begin(),
        lambda: LakeStore(url).location.join("x").write_bytes(b""),
        lambda: LakeStore(url).location.join("x").read_bytes(),
        lambda: LakeStore(url).delta("orders"),
    ):
        with pytest.raises(UsageError) as raised:
            work()
        unseen(all_of(raised.value))


def test_a_refused_key_is_not_shown(s3_endpoint: str) -> None:
    location = Location.parse(f"s3://{AUTHORITY}bucket/lake")
    echoed = OSError(
        f"SignatureDoesNotMatch: <AWSAccessKeyId>{KEY}</AWSAccessKeyId> Sup3r+Secret/Key"
    )
    unseen(location.redacted(str(echoed)))
    assert location.cause(echoed) is None
    plain = OSError("no route")
    assert location.cause(plain) is plain
    unseen(repr(location) + str(location))
    assert pickle.loads(pickle.dumps(location)).storage_options["AWS_SECRET_ACCESS_KEY"] == (
        "Sup3r+Secret/Key"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["lake", "tables", "--lake"],
        ["ingest", "--lake", "lake", "--engine", "local"],
    ],
)
def test_commands_have_none(arguments: list[str]) -> None:
    url = f"s3://{AUTHORITY}bucket/lake?endpoint_override=127.0.0.1:9&scheme=http&region=x"
    done = subprocess.run(
        [sys.executable, "-m", "pregao", *arguments, url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert "s3://bucket/lake" in done.stderr
    unseen(done.stdout + done.stderr)


PARTS = st.text("abcXYZ019-_.~", min_size=4, max_size=12)


@given(
    scheme=st.sampled_from(["s3", "gs", "hdfs", "https", "S3A"]),
    user=st.none() | PARTS.map("U{}".format),
    password=st.none() | PARTS.map("P{}".format),
    path=st.lists(PARTS, max_size=3),
    query=st.none() | PARTS.map("Q{}".format),
)
def test_urls_lose_their_secrets_and_get_them_back(scheme, user, password, path, query) -> None:
    authority = "" if user is None else f"{user}:{password}@" if password else f"{user}@"
    tail = "/".join(["host", *path])
    url = f"{scheme}://{authority}{tail}{'' if query is None else f'?{query}'}"
    clean = without_secrets(url)
    assert clean == f"{scheme}://{tail}"
    assert with_secrets(clean) == url or not (user or query)
    hidden = redacted(f"At '{url}' nothing was found: is it there?")
    assert hidden.endswith("nothing was found: is it there?")
    assert tail in hidden
    for secret in (user, password, query):
        assert secret is None or secret not in hidden


def test_texts_without_urls_stay_unchanged() -> None:
    for text in ("Is it there?", "a@b: 10:05?", "/data/lake?x", "C:\\x", "lake", "ratio 3:/4"):
        assert redacted(text) == text or text == "ratio 3:/4"
        assert without_secrets(text) == text
    assert without_secrets("abfss://box@account.example/x") == "abfss://box@account.example/x"
    assert without_secrets("abfss://box:pw@account.example/x") == "abfss://box@account.example/x"
    assert Location.parse("abfss://box:pw@account.example/x").uri == "abfss://box@account.example/x"


def credentials(path: Path, mode: int = 0o600) -> Path:
    path.write_text(
        "# keys\n[default]\naws_access_key_id = AKIAVISIBLE\naws_secret_access_key=Secret/Key\n"
    )
    path.chmod(mode)
    return path


@pytest.mark.parametrize("by", ["query", "variable"])
def test_keys_come_from_a_file(tmp_path: Path, by: str) -> None:
    path = credentials(tmp_path / "keys")
    query = f"?credentials_file={path}" if by == "query" else ""
    environment = {"PREGAO_S3_CREDENTIALS": str(path)} if by == "variable" else {}
    environment["AWS_SESSION_TOKEN"] = "of another key"
    location = Location.parse(f"s3://bucket/lake{query}", environment)
    assert location.uri == "s3://bucket/lake"
    assert location.storage_options == {
        "AWS_ACCESS_KEY_ID": "AKIAVISIBLE",
        "AWS_SECRET_ACCESS_KEY": "Secret/Key",
    }


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("group", r"is open to others \(mode 0640\); `chmod 600` closes it"),
        ("all", r"is open to others \(mode 0604\)"),
        ("missing", "cannot be read: No such file"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("link", "cannot be read"),
        ("empty", "has no aws_access_key_id"),
        ("large", "has more than 65,536 bytes"),
    ],
)
def test_a_file_of_keys_is_the_owners_alone(tmp_path: Path, case: str, message: str) -> None:
    path = tmp_path / "keys"
    if case in ("group", "all"):
        credentials(path, 0o640 if case == "group" else 0o604)
    elif case == "folder":
        path.mkdir(0o700)
    elif case == "pipe":
        os.mkfifo(path, 0o600)
    elif case == "link":
        path.symlink_to(credentials(tmp_path / "others"))
    elif case in ("empty", "large"):
        path.write_bytes(b"#" * 70_000 if case == "large" else b"")
        path.chmod(0o600)
    with pytest.raises(UsageError, match=message):
        Location.parse("s3://bucket", {"PREGAO_S3_CREDENTIALS": str(path)})
