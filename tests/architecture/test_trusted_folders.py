"""Compiled code is loaded only from folders that no other user can have written to."""

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pregao._kernel_cache import cache_folder, refused_folders
from pregao.safe_io import trusted_folders
from pregao.safe_io.trusted_folders import UnsafeFolderError, private_folder

DIGEST = "0123456789abcdef" * 2
STRANGER = 54_321


def given_to_a_stranger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the owner of a file; without root, make it appear so."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        return
    inode, plain = path.lstat().st_ino, trusted_folders._check_owner

    def checked(where: Path, found: os.stat_result) -> None:
        if found.st_ino == inode:
            found = os.stat_result([*found[:4], STRANGER, *found[5:10]])
        plain(where, found)

    monkeypatch.setattr(trusted_folders, "_check_owner", checked)


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.lstat().st_mode)


def test_new_folders_are_readable_by_the_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        folder = private_folder(tmp_path / "a" / "b", "c", "d")
    finally:
        os.umask(old)
    assert folder == tmp_path / "a" / "b" / "c" / "d"
    for made in (folder, *folder.parents[:3]):
        assert mode_of(made) == 0o700, made


def test_an_older_folder_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    folder.mkdir(0o755)
    (folder / "kernel.nbi").write_bytes(b"")
    assert private_folder(tmp_path, "ours") == folder
    assert mode_of(folder) == 0o700


def planted(case: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Prepare base/ours/inner as another user could have; return what the refusal names."""
    ours, inner = base / "ours", base / "ours" / "inner"
    if case in ("a link to a folder", "a link of a stranger on the way"):
        real = base.parent / "real"
        (real / "inner").mkdir(parents=True, mode=0o700)
        if case == "a link to a folder":
            ours.symlink_to(real)
            return f"{ours} is a symbolic link"
        base.rename(base.parent / "moved")
        base.symlink_to(base.parent / "moved")
        given_to_a_stranger(base, monkeypatch)
        return f"{base} belongs to user {STRANGER}"
    inner.mkdir(parents=True)
    for folder in (ours, inner):
        folder.chmod(0o700)
    if case == "a folder of a stranger":
        given_to_a_stranger(ours, monkeypatch)
        return f"{ours} belongs to user {STRANGER}"
    if case == "a base of a stranger":
        given_to_a_stranger(base, monkeypatch)
        return f"{base} belongs to user {STRANGER}"
    if case == "a file of a stranger":
        (inner / "kernel.nbi").write_bytes(b"")
        given_to_a_stranger(inner / "kernel.nbi", monkeypatch)
        return f"{inner / 'kernel.nbi'} belongs to user {STRANGER}"
    if case == "a link inside":
        (inner / "kernel.nbi").symlink_to(base / "elsewhere")
        return f"{inner / 'kernel.nbi'} is not a regular file"
    if case == "a file that others could write":
        inner.chmod(0o755)
        (inner / "kernel.nbi").write_bytes(b"")
        (inner / "kernel.nbi").chmod(0o666)
        return f"{inner / 'kernel.nbi'} can be written by other users"
    modes = {
        "a world-writable folder": (inner, 0o777),
        "a sticky folder among ours": (inner, 0o1777),
        "a folder that a group writes": (ours, 0o770),
        "a parent that others write": (base, 0o777),
        "a parent that a group writes": (base, 0o775),
    }
    folder, mode = modes[case]
    folder.chmod(mode)
    return f"{folder} can be written by other users"


CASES = [
    "a link to a folder",
    "a link of a stranger on the way",
    "a folder of a stranger",
    "a base of a stranger",
    "a file of a stranger",
    "a link inside",
    "a file that others could write",
    "a world-writable folder",
    "a sticky folder among ours",
    "a folder that a group writes",
    "a parent that others write",
    "a parent that a group writes",
]


@pytest.mark.parametrize("case", CASES)
def test_a_folder_that_others_could_have_written_to_is_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"
    base.mkdir(0o700)
    private_folder(base, "others", "inner")  # what follows is refused for what is planted
    reason = planted(case, base, monkeypatch)
    for create in (True, False):
        with pytest.raises(UnsafeFolderError) as refused:
            private_folder(base, "ours", "inner", create=create)
        assert str(refused.value) == reason


def test_a_sticky_base_is_like_the_temporary_folder(tmp_path: Path) -> None:
    base = tmp_path / "tmp"
    base.mkdir()
    base.chmod(0o1777)
    assert private_folder(base, "ours") == base / "ours"
    assert mode_of(base / "ours") == 0o700
    assert mode_of(base) == 0o1777


def test_links_of_ours_lead_to_the_base(tmp_path: Path) -> None:
    (tmp_path / "disk" / "cache").mkdir(parents=True)
    (tmp_path / "way").mkdir()
    (tmp_path / "way" / "first").symlink_to(Path("..") / "disk")
    (tmp_path / "second").symlink_to(tmp_path / "way" / "first" / "cache")
    assert private_folder(tmp_path / "second", "ours") == tmp_path / "disk" / "cache" / "ours"
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(UnsafeFolderError, match="more than 40 symbolic links"):
        private_folder(tmp_path / "round", "ours")


@pytest.fixture(name="bases")
def cache_bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A base for each candidate folder of a cache, in their order."""
    found = {}
    for name in ("PREGAO_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"):
        found[name] = tmp_path / name
        found[name].mkdir()
        monkeypatch.setenv(name, str(found[name]))
    monkeypatch.setattr("tempfile.tempdir", str(found["TMPDIR"]))
    return found


def test_unsafe_folders_are_skipped_and_named(bases: dict[str, Path]) -> None:
    expected = {
        "PREGAO_CACHE_DIR": Path("numba"),
        "NUMBA_CACHE_DIR": Path(),
        "XDG_CACHE_HOME": Path("pregao", "numba"),
        "TMPDIR": Path(f"pregao-{os.getuid()}", "numba"),
    }
    reasons: list[str] = []
    for name, inner in expected.items():
        assert refused_folders() == reasons
        for kind in ("kernels", "classes"):
            assert cache_folder(DIGEST, kind) == bases[name] / inner / f"{kind}-{DIGEST}"
        bases[name].chmod(0o777)
        reasons.append(f"{bases[name]} can be written by other users")
    assert cache_folder(DIGEST) is None
    assert cache_folder(DIGEST, "classes") is None
    assert refused_folders() == reasons


class Attack:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


KERNEL = """
import numpy as np
from pregao.sbe import _kernels
sizes = np.zeros(1, np.int64)
_kernels.text_sizes(np.zeros(9, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64), True, sizes)
print(int(sizes[0]))
"""


def test_a_planted_pickle_is_not_loaded(tmp_path: Path) -> None:
    """The index of a kernel is a pickle: first it is shown that one of ours is loaded."""
    temporary, attacked = tmp_path / "tmp", tmp_path / "attacked"
    temporary.mkdir()
    temporary.chmod(0o1777)
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    environment = os.environ | {
        "PREGAO_CACHE_DIR": str(nowhere),
        "NUMBA_CACHE_DIR": str(nowhere),
        "XDG_CACHE_HOME": str(nowhere),
        "TMPDIR": str(temporary),
    }

    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-c", KERNEL],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or attacked.exists(), done.stderr
        return done.stdout.strip()

    assert run() == "0"
    (shared,) = temporary.iterdir()
    indexes = [path for path in shared.rglob("*.nbi") if "text_sizes" in path.name]
    assert indexes
    for mode, loaded in ((0o700, True), (0o777, False)):
        for index in indexes:
            index.write_bytes(pickle.dumps(Attack(attacked)))
        attacked.unlink(missing_ok=True)
        shared.chmod(mode)
        printed = run()
        assert (attacked.exists(), printed == "0" or loaded) == (loaded, True)
