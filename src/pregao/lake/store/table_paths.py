"""Check the paths in a table's log: only names below the table's folder are allowed.

A log is untrusted input: it may come from a third party. A path that leads out of the table's
folder would let a query, or a page, read other files through it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import UsageError
from pregao.lake.store.location import Location

# Empty names, absolute paths, schemes (and drives), . and .. as components, wildcards, backslashes
# and control characters.
_REFUSED = r"^$|^/|^[A-Za-z][A-Za-z0-9+.\-]*:|(^|/)\.{0,2}(/|$)|[*?\[\]{}\\]|[\x00-\x1f\x7f]"
_DECODINGS = 3
"""Maximum URL decodings of a path: some readers decode, others do not, and encoders repeat it."""


def check_paths(location: Location, paths: Any) -> None:
    """Reject the paths of a table (an Arrow column) if one is not a plain name below its folder.

    A table whose folder is a link is rejected as well: its files are elsewhere.
    """
    if location.is_local and Path(location.uri).is_symlink():
        raise UsageError(
            f"{location}: this folder is a link; a table must be in its lake's own folder: move it "
            "there (the lake itself may be a link)."
        )
    column = paths if isinstance(paths, pa.ChunkedArray) else pa.chunked_array([paths])
    for _ in range(_DECODINGS):
        refused = pc.match_substring_regex(column, _REFUSED)
        if pc.any(refused).as_py():
            raise refused_path(location, column.filter(refused)[0].as_py())
        encoded = column.filter(pc.match_substring(column, "%"))
        if not len(encoded):
            return
        column = pa.chunked_array([[unquote(path) for path in encoded.to_pylist()]], pa.string())
    if pc.any(pc.match_substring(column, "%")).as_py():
        raise refused_path(location, column[0].as_py())


def check_links(location: Location, paths: Iterable[str]) -> None:
    """Reject files of a local table that are links, or are in a folder that is a link."""
    if not location.is_local:
        return
    root = Path(location.uri)
    checked: set[Path] = set()
    for path in paths:
        file = root / path
        for each in (file, *file.parents):
            if each == root or each in checked:
                break
            checked.add(each)
            try:
                mode = each.lstat().st_mode
            except OSError:
                continue  # readers report missing files
            if stat.S_ISLNK(mode):
                raise UsageError(
                    f"{location}: {each.relative_to(root)!s} is a link; a table's files must be "
                    "in its own folder: move the file there."
                )


def refused_path(location: Location, path: str) -> UsageError:
    """Return the error for a path that is not a plain name below its table."""
    return UsageError(
        f"{location}: the table's log names the file {path!r}; only paths below the table's "
        "folder are allowed, without .., a leading /, a scheme or wildcards."
    )
