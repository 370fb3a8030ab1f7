"""Location of a lake or capture: a local path, ``s3://…``, ``hdfs://…`` or any pyarrow.fs URI."""

from __future__ import annotations

import functools
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from pregao.errors import UsageError
from pregao.safe_io.urls import (
    CONTAINER_SCHEMES,
    credentials_path,
    read_credentials,
    redacted,
    with_secrets,
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_S3_SCHEMES = ("s3", "s3a", "s3n")
_TRUE = ("1", "true", "yes", "on")
_MISTYPED = re.compile(r"(s3|s3a|s3n|gs|gcs|hdfs|viewfs|abfss?|wasbs?|https?):", re.IGNORECASE)
CREDENTIALS_VARIABLE = "PREGAO_S3_CREDENTIALS"
"""Variable that names a file with access keys, to keep them out of command line and environment."""

# S3 settings from the environment, by deltalake's option names. The first variable found wins. They
# are part of the location, as in Spark itself, so that tasks on other machines open the same store
# in the same way.
_S3_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": ("AWS_ACCESS_KEY_ID",),
    "AWS_SECRET_ACCESS_KEY": ("AWS_SECRET_ACCESS_KEY",),
    "AWS_SESSION_TOKEN": ("AWS_SESSION_TOKEN",),
    "AWS_REGION": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "AWS_ENDPOINT_URL": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "AWS_ALLOW_HTTP": ("AWS_ALLOW_HTTP",),
    "AWS_SKIP_SIGNATURE": ("AWS_SKIP_SIGNATURE", "AWS_ANONYMOUS"),
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",),
}
# S3 settings in the query of a URI, by pyarrow's names.
_S3_QUERY = {
    "region": "AWS_REGION",
    "endpoint_override": "AWS_ENDPOINT_URL",
    "anonymous": "AWS_SKIP_SIGNATURE",
    "force_virtual_addressing": "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder at a location."""

    location: Location
    is_folder: bool
    size: int
    modified_ns: int

    @property
    def name(self) -> str:
        """Last component of the path."""
        return self.location.name


@dataclass(frozen=True, slots=True)
class Location:
    """A path on a filesystem, with the options to open it; it can be sent to other processes.

    ``uri`` is an absolute local path, or a URI without query and trailing slash. ``settings`` are
    deltalake's storage options, or the ``query`` of a URI for pyarrow; they may have secrets, so
    they are never shown.
    """

    uri: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(
        cls,
        where: str | os.PathLike[str] | Location,
        environment: Mapping[str, str] | None = None,
    ) -> Location:
        """Parse a path or URI; S3 settings come from the environment too."""
        if isinstance(where, Location):
            return where
        text = with_secrets(os.fspath(where))
        if not text:
            raise UsageError("A location is empty; give a folder, a file or a URI.")
        matched = _SCHEME.match(text)
        if matched is None:
            if mistyped := _MISTYPED.match(text):
                scheme = mistyped.group(1)
                # Not even redacted: the position of its secrets is unknown.
                raise UsageError(f"{scheme}:… is not a URI; write {scheme}://NAME/PATH.")
            return cls(_absolute(text))
        scheme = matched.group(1).lower()
        if scheme == "file":
            return cls(_absolute(unquote(urlsplit(text).path) or "/"))
        if scheme in _S3_SCHEMES:
            return _parse_s3(text, os.environ if environment is None else environment)
        body, _, query = text.partition("?")
        host, slash, path = body[matched.end() :].partition("/")
        user, at, name = host.rpartition("@")
        if at and scheme in CONTAINER_SCHEMES:
            container, at, _password = user.partition(":")
            name = f"{container}@{name}"
        rest = f"{name}{slash}{path}".rstrip("/")
        if not rest and scheme != "hdfs":
            raise UsageError(f"{redacted(text)} has no bucket or host; write {scheme}://NAME/PATH.")
        settings = {"query": query} if query else {}
        return cls(
            f"{scheme}://{rest}", tuple({**settings, **({"user": user} if at else {})}.items())
        )

    @property
    def scheme(self) -> str:
        """Scheme of the URI; ``file`` for a local path."""
        matched = _SCHEME.match(self.uri)
        return "file" if matched is None else matched.group(1)

    @property
    def is_local(self) -> bool:
        """Whether this is a local path."""
        return self.scheme == "file"

    @property
    def name(self) -> str:
        """Last component of the path."""
        return self.uri.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """Parent folder."""
        root, rest = self._root_and_rest()
        above = rest.rpartition("/")[0]
        return replace(self, uri=f"{root}/{above}".rstrip("/") or "/")

    def join(self, *parts: str) -> Location:
        """Return a location below this one."""
        return replace(self, uri="/".join([self.uri.rstrip("/"), *parts]))

    def relative_to(self, folder: Location) -> str:
        """Return the path relative to a folder above."""
        prefix = folder.uri.rstrip("/") + "/"
        if not self.uri.startswith(prefix):
            raise UsageError(f"{self.uri} is not below {folder.uri}.")
        return self.uri[len(prefix) :]

    def __str__(self) -> str:
        return self.uri

    def redacted(self, text: str) -> str:
        """Return a library's text without the secrets of this location."""
        return _redacted(text, self.settings)

    def cause(self, error: BaseException) -> BaseException | None:
        """Return an error as the cause of another one; None if its text has a secret."""
        return error if self.redacted(str(error)) == str(error) else None

    # Forms for other libraries.

    @property
    def filesystem(self) -> Any:
        """Pyarrow filesystem, created once per process."""
        return _filesystem(self._root_and_rest()[0], self.settings)[0]

    @property
    def path(self) -> str:
        """Path on that filesystem."""
        if self.is_local:
            return self.uri
        root, rest = self._root_and_rest()
        base: str = _filesystem(root, self.settings)[1]
        return f"{base.rstrip('/')}/{rest}" if rest else base

    @property
    def delta_uri(self) -> str:
        """URI for deltalake, Polars and others."""
        if self.is_local:
            return self.uri
        root, rest = self._root_and_rest()
        return f"{root}/{quote(rest)}" if rest else root

    @property
    def storage_options(self) -> dict[str, str]:
        """Storage options for deltalake, Polars and others, next to the URI."""
        return {key: value for key, value in self.settings if key not in ("query", "user")}

    @property
    def source(self) -> str | tuple[Any, str]:
        """Source for `pregao.capture`."""
        return self.uri if self.is_local else (self.filesystem, self.path)

    # Operations.

    def info(self) -> FileEntry | None:
        """Return the file or folder at this location; None if there is none."""
        with _spoken(self, "cannot be accessed"):
            found = self.filesystem.get_file_info(self.path)
        return None if found.type == pa.fs.FileType.NotFound else _entry(self, found)

    def exists(self) -> bool:
        """Whether a file or folder exists at this location."""
        return self.info() is not None

    def entries(self, *, recursive: bool = False) -> list[FileEntry]:
        """Return the files and folders in this folder, by name; none if it does not exist."""
        selector = pa.fs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
        with _spoken(self, "cannot be listed"):
            found = self.filesystem.get_file_info(selector)
        prefix = self.path.rstrip("/") + "/"
        entries = [_entry(self.join(info.path.removeprefix(prefix)), info) for info in found]
        return sorted(entries, key=lambda entry: entry.location.uri)

    def read_bytes(self) -> bytes:
        """Read a (small) file."""
        with _spoken(self, "cannot be read"), self.filesystem.open_input_file(self.path) as file:
            return bytes(file.read())

    def write_bytes(self, content: bytes) -> None:
        """Write a (small) file; creates parent folders."""
        with _spoken(self, "cannot be written"), self.open_output() as file:
            file.write(content)

    def open_input(self) -> Any:
        """Open a file for random access, as a pyarrow file."""
        with _spoken(self, "cannot be opened"):
            return self.filesystem.open_input_file(self.path)

    def open_output(self) -> Any:
        """Open a file for writing, as a pyarrow stream; creates parent folders."""
        with _spoken(self, "cannot be written"):
            if self.is_local:
                Path(self.uri).parent.mkdir(parents=True, exist_ok=True)
            elif self.scheme not in _OBJECT_STORES:
                self.filesystem.create_dir(self.parent.path, recursive=True)
            return self.filesystem.open_output_stream(self.path)

    def delete(self) -> None:
        """Remove a file, if it exists."""
        with _spoken(self, "cannot be removed"):
            try:
                self.filesystem.delete_file(self.path)
            except FileNotFoundError:
                return

    def delete_folder(self) -> None:
        """Remove a folder with its contents, if it exists.

        Links inside are removed, not followed; if the folder itself is a link, UsageError is
        raised.
        """
        with _spoken(self, "cannot be removed"):
            try:
                if self.is_local:
                    shutil.rmtree(self.uri)
                else:
                    self.filesystem.delete_dir(self.path)
            except FileNotFoundError:
                return

    def _root_and_rest(self) -> tuple[str, str]:
        """Return the filesystem's root (scheme and host or bucket) and the path below it."""
        matched = _SCHEME.match(self.uri)
        if matched is None:
            return "", self.uri.lstrip("/")
        host, _, rest = self.uri[matched.end() :].partition("/")
        return f"{matched.group(0)}{host}", rest


_OBJECT_STORES = ("s3", "gs", "gcs")


def _absolute(text: str) -> str:
    """Return the absolute path with links in its parents resolved, so that a file has one path."""
    path = Path(text).expanduser()
    if path.name in ("", ".."):
        return str(path.resolve())
    return str(path.parent.resolve() / path.name)


def unique_name(stem: str, ending: str) -> str:
    """Return a globally unique file name."""
    return f"{stem}-{uuid.uuid4()}{ending}"


def _entry(location: Location, info: Any) -> FileEntry:
    folder = info.type == pa.fs.FileType.Directory
    return FileEntry(location, folder, int(info.size or 0), int(info.mtime_ns or 0))


@contextmanager
def _spoken(location: Location, trouble: str) -> Iterator[None]:
    """Convert errors of a filesystem to UsageError with the location."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = location.redacted(" ".join(text.split()))[:300]
        raise UsageError(f"{location.uri} {trouble}: {reason}") from location.cause(error)


def _redacted(text: str, settings: tuple[tuple[str, str], ...]) -> str:
    secrets = {key: value for key, value in settings if key in _SECRET}
    for _, value in parse_qsl(secrets.pop("query", "")):
        secrets[value] = value
    for number, part in enumerate(secrets.pop("user", "").split(":")):
        secrets |= {f"user {number}": unquote(part), f"quoted user {number}": part}
    return redacted(text, secrets)


_SECRET = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "query", "user",
)  # fmt: skip


def _parse_s3(text: str, environment: Mapping[str, str]) -> Location:
    body, _, query = text.partition("?")
    rest = body.partition("://")[2].rstrip("/")
    host, slash, path = rest.partition("/")
    keys, at, bucket = host.rpartition("@")
    if not bucket:
        raise UsageError(f"{redacted(text)} has no bucket; write s3://BUCKET/PATH.")
    if ":" in bucket or (not at and "@" in path.partition("/")[0] and ":" in path):
        # Probably a secret key with a slash, so that the host is only a part of it.
        raise UsageError(
            "An s3 URI has a colon in its bucket; write s3://BUCKET/PATH, and in keys %2F for / "
            f"and %40 for @; or put the keys into a file and name it in {CREDENTIALS_VARIABLE}."
        )
    settings = {}
    for key, names in _S3_ENVIRONMENT.items():
        if value := next((environment[name] for name in names if environment.get(name)), None):
            settings[key] = value
    if at:
        key, _, secret = keys.partition(":")
        settings["AWS_ACCESS_KEY_ID"] = unquote(key)
        settings["AWS_SECRET_ACCESS_KEY"] = unquote(secret)
        settings.pop("AWS_SESSION_TOKEN", None)
    options = dict(parse_qsl(query))
    scheme = options.pop("scheme", None)
    file = options.pop("credentials_file", None) or environment.get(CREDENTIALS_VARIABLE)
    if file and not at:
        settings.pop("AWS_SESSION_TOKEN", None)
        settings |= read_credentials(credentials_path(file))
    for key, value in options.items():
        if key not in _S3_QUERY:
            supported = ", ".join([*_S3_QUERY, "scheme", "credentials_file"])
            raise UsageError(
                f"{redacted(text)}: unknown option {key!r} of an s3 URI; options are {supported}."
            )
        settings[_S3_QUERY[key]] = value
    if (endpoint := settings.get("AWS_ENDPOINT_URL")) is not None:
        if "://" not in endpoint:
            endpoint = f"{scheme or 'https'}://{endpoint}"
        settings["AWS_ENDPOINT_URL"] = endpoint.rstrip("/")
        # An endpoint with http:// explicitly allows unencrypted requests.
        if endpoint.startswith("http://"):
            settings["AWS_ALLOW_HTTP"] = "true"
        # Other stores than Amazon's have no regions, but requests cannot be signed without one.
        settings.setdefault("AWS_REGION", "us-east-1")
    for key in ("AWS_ALLOW_HTTP", "AWS_SKIP_SIGNATURE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"):
        if key in settings:
            settings[key] = "true" if settings[key].lower() in _TRUE else "false"
    return Location(f"s3://{bucket}{slash}{path}", tuple(sorted(settings.items())))


@functools.lru_cache(maxsize=64)
def _filesystem(root: str, settings: tuple[tuple[str, str], ...]) -> tuple[Any, str]:
    """Return the filesystem of a root, and the path of the root on it."""
    if not root:
        return pa.fs.LocalFileSystem(), ""
    scheme, _, host = root.partition("://")
    values = dict(settings)
    try:
        if scheme in _S3_SCHEMES:
            return _s3_filesystem(host, values), host
        query = f"?{values['query']}" if "query" in values else ""
        user = f"{values['user']}@" if "user" in values else ""
        if scheme in CONTAINER_SCHEMES and user:
            host = host.partition("@")[2]
        filesystem, path = pa.fs.FileSystem.from_uri(f"{scheme}://{user}{host}/{query}")
        return filesystem, path
    except (OSError, pa.ArrowException, ValueError) as error:
        hint = ""
        if scheme in ("hdfs", "viewfs"):
            hint = " HDFS needs libhdfs: set HADOOP_HOME, JAVA_HOME and CLASSPATH."
        reason = _redacted(" ".join(str(error).split()), settings)[:200]
        safe = _redacted(str(error), settings) == str(error)
        raise UsageError(f"{root} cannot be opened: {reason}{hint}") from (error if safe else None)


def _s3_filesystem(bucket: str, known: Mapping[str, str]) -> Any:
    region = known.get("AWS_REGION")
    if region is None:
        region = pa.fs.resolve_s3_region(bucket)
    options: dict[str, Any] = {"region": region}
    if endpoint := known.get("AWS_ENDPOINT_URL"):
        options["scheme"], _, options["endpoint_override"] = endpoint.partition("://")
    if known.get("AWS_SKIP_SIGNATURE") == "true":
        options["anonymous"] = True
    elif "AWS_ACCESS_KEY_ID" in known:
        options["access_key"] = known["AWS_ACCESS_KEY_ID"]
        options["secret_key"] = known.get("AWS_SECRET_ACCESS_KEY", "")
        options["session_token"] = known.get("AWS_SESSION_TOKEN")
    if known.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") == "true":
        options["force_virtual_addressing"] = True
    return pa.fs.S3FileSystem(**options)
