"""Files of our Parquet writer with damage: we read what pyarrow reads, or leave them to it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.storage.fast_parquet.reader import open_flat
from tests.fuzzing.damage import damaged
from tests.lake.storage.test_lake_fast_parquet import KINDS, SHAPES, table, written

NULL = -(1 << 63)


def prepare() -> tuple[Path, list[bytes]]:
    """Write some complete files: every encoding, with and without nulls, several row groups."""
    rng = random.Random(7)
    files = []
    for number in range(24):
        shapes = [rng.choice(SHAPES) for _ in range(6)]
        nulls = [rng.choice((0.0, 0.0, 0.2, 1.0)) for _ in range(6)]
        names = [name for name in [*KINDS, "price"] if rng.random() < 0.5]
        rows = table(rng.choice((3, 40, 300)), shapes, nulls, number)
        plain = rng.choice([*KINDS, "price"])
        files.append(written([rows], rng.choice((20, 200, 1000)), tuple(names), plain).to_pybytes())
    return Path(tempfile.mkdtemp()), files


def footer_of(content: bytes) -> int:
    """Return the offset of the footer of a complete file."""
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def run(rng: random.Random, prepared: tuple[Path, list[bytes]]) -> bool:
    """Damage a file and compare the readers; return whether ours gave rows."""
    folder, files = prepared
    whole = rng.choice(files)
    footer = footer_of(whole)
    if rng.random() < 0.6:
        tail = damaged(rng, whole[footer:-8])
        content = whole[:footer] + tail + len(tail).to_bytes(4, "little") + whole[-4:]
    elif rng.random() < 0.9:
        # Pages keep their offsets, so that their content is reached.
        pages = damaged(rng, whole[4:footer])
        content = whole[:4] + pages[: footer - 4].ljust(footer - 4, b"\0") + whole[footer:]
    else:
        content = damaged(rng, whole)
    path = folder / f"{rng.getrandbits(60)}.parquet"
    path.write_bytes(content)
    try:
        return compared(str(path), whole)
    finally:
        path.unlink()


def compared(path: str, whole: bytes) -> bool:
    """Read a file with both readers; return whether ours gave rows."""
    file = open_flat(path)
    if file is None:
        return False
    groups = range(len(file.group_rows))
    found = file.read(groups, file.names, NULL)
    if found is None or not len(groups):
        return False
    ours = found.table(file.names, ())
    try:
        # As our own files are read.
        theirs = pq.ParquetFile(path, pre_buffer=False)
        expected = theirs.read_row_groups(list(groups), use_threads=False)
    except (pa.ArrowException, OSError):
        # Damage of what no row comes from: of that pyarrow reads more.
        assert ours.equals(pq.read_table(pa.BufferReader(whole))), "rows of what pyarrow refuses"
        return True
    assert theirs.num_row_groups == len(groups)
    assert ours.schema.equals(expected.schema), (ours.schema, expected.schema)
    assert ours.equals(expected), "the rows differ"
    for at, name in enumerate(file.names):
        for group, low, high in zip(groups, *file.bounds(name, 1, 0), strict=True):
            # Only of those that we understand: of other sizes pyarrow ends the process.
            if low <= high and pa.types.is_integer(ours.schema.field(at).type):
                statistics = theirs.metadata.row_group(group).column(at).statistics
                if statistics.has_min_max:
                    assert (statistics.min_raw, statistics.max_raw) == (low, high)
    return True
