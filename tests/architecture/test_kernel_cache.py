"""Kernels compile wherever Pregão is installed, and are never older than their sources."""

import ast
import os
import shutil
import subprocess
import sys
import time
import types
import zipfile
from importlib import import_module
from pathlib import Path

import numba
import pytest
from numba.core.dispatcher import Dispatcher

from pregao import _njit
from pregao._kernel_cache import PACKAGE, cache_folder, digest_of, kernel_sources, module_names

PROGRAM = """
import numpy as np
from pregao.sbe import _kernels
sizes = np.zeros(1, np.int64)
_kernels.text_sizes(np.zeros(9, np.uint8), np.zeros(1, np.int64), np.ones(1, np.int64), True, sizes)
print(int(sizes[0]))
"""
DIGEST = "0123456789abcdef" * 2
OLD = "fedcba9876543210" * 2


def run(environment, program=PROGRAM):
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_cache_is_in_the_configured_folder(tmp_path):
    result = run({"PREGAO_CACHE_DIR": str(tmp_path)})
    assert result.stdout.strip() == "0", result.stderr
    (folder,) = (tmp_path / "numba").iterdir()
    assert list(folder.rglob("*.nbi"))


def test_without_a_writable_folder_kernels_still_compile(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    nowhere = str(blocked / "cache")
    result = run(
        {
            "PREGAO_CACHE_DIR": nowhere,
            "NUMBA_CACHE_DIR": nowhere,
            "XDG_CACHE_HOME": nowhere,
            "TMPDIR": str(tmp_path),
        }
    )
    assert result.stdout.strip() == "0", result.stderr


def test_an_unwritable_path_is_skipped(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(blocked))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "second"))
    assert cache_folder(DIGEST) == tmp_path / "second" / f"kernels-{DIGEST}"


def test_kernels_compile_from_an_archive_that_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "pregao.zip", "w") as archive:
        for path in PACKAGE.rglob("*"):
            if path.suffix in (".py", ".xml"):
                archive.write(path, path.relative_to(PACKAGE.parent))
    result = run({"PYTHONPATH": str(tmp_path / "pregao.zip"), "PREGAO_CACHE_DIR": str(tmp_path)})
    assert result.stdout.strip() == "0", result.stderr


def test_others_keep_their_cache_where_they_had_it(tmp_path):
    program = f"import numba\nbefore = numba.config.CACHE_DIR\n{PROGRAM}\n"
    program += "print(numba.config.CACHE_DIR == before)"
    result = run({"PREGAO_CACHE_DIR": str(tmp_path)}, program)
    assert result.stdout.split() == ["0", "True"], result.stderr


@pytest.fixture
def package(tmp_path):
    """A copy of the package's sources."""
    copy = tmp_path / "site" / "pregao"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_a_change_of_any_source_file_of_a_kernel_gives_another_folder(package):
    sources = kernel_sources(package)
    seen = {digest_of(sources, ["1"])}
    for name in sources:
        path = package / name
        whole = path.read_bytes()
        path.write_bytes(whole + b"\n")
        seen.add(digest_of(kernel_sources(package), ["1"]))
        path.write_bytes(whole)
    assert len(seen) == 1 + len(sources)
    assert digest_of(kernel_sources(package), ["1"]) in seen  # as at the beginning


def test_the_same_sources_give_the_same_folder_wherever_they_are(package):
    assert digest_of(kernel_sources(package), ["1"]) == digest_of(kernel_sources(), ["1"])


def test_other_versions_of_the_compiler_give_another_folder():
    sources = kernel_sources()
    assert digest_of(sources, ["1", "2"]) != digest_of(sources, ["1", "3"])


def test_files_without_kernels_change_nothing(package):
    before = digest_of(kernel_sources(package), ["1"])
    with (package / "cli" / "main.py").open("a") as file:
        file.write("# more\n")
    assert digest_of(kernel_sources(package), ["1"]) == before


def test_without_files_the_version_names_the_folder(tmp_path):
    sources = kernel_sources(tmp_path / "none")
    assert sources == {}
    assert digest_of(sources, ["0.1.0"]) != digest_of(sources, ["0.2.0"])


def test_the_files_of_kernel_constants_are_among_the_sources():
    """Those of the book come from enumerations, those of packets from the schema file."""
    wanted = {"book/update_rows.py", "book/state.py", "umdf/layout.py", "schemas/umdf/umdf.xml"}
    assert wanted <= set(kernel_sources())


def imports(source):
    """The modules and names that a source imports from the package, as Python reads it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            yield from ((node.module, alias.name) for alias in node.names)


def test_every_import_of_a_source_is_followed():
    sources = kernel_sources()
    modules = module_names(sources) | {"pregao"}
    for name, content in sources.items():
        if name.endswith(".xml"):
            continue
        for module, inner in imports(content):
            if module.split(".")[0] == "pregao":
                assert module in modules or f"{module}.{inner}" in modules, (name, module, inner)


def test_every_kernel_is_in_a_file_of_the_digest():
    modules = module_names(kernel_sources())
    for path in PACKAGE.rglob("*.py"):
        if path.name in ("_njit.py", "_kernel_cache.py"):
            continue
        if any(module == "pregao._njit" for module, _ in imports(path.read_bytes())):
            inner = path.relative_to(PACKAGE.parent).with_suffix("")
            assert ".".join(inner.parts) in modules, path


def test_what_kernels_refer_to_is_in_a_file_of_the_digest():
    modules = module_names(kernel_sources())
    kernels = [name for name in modules if name.endswith("kernels")]
    assert len(kernels) > 5
    for name in kernels:
        for kernel in vars(import_module(name)).values():
            if isinstance(kernel, Dispatcher):
                function = kernel.py_func
                for word in function.__code__.co_names:
                    used = function.__globals__.get(word)
                    used = getattr(used, "py_func", used)
                    if isinstance(used, types.ModuleType):
                        origin = used.__name__
                    else:
                        origin = getattr(used, "__module__", None) or ""
                    assert not origin.startswith("pregao") or origin in modules, (name, word)


ANSWER = (
    "from pregao._probe_kernels import answer\n"
    "print(answer(), sum(answer.stats.cache_hits.values()))"
)


def small_package(folder):
    """As much of the package as a kernel needs, with one that gives a constant of another file."""
    package = folder / "pregao"
    package.mkdir(parents=True)
    for name in (
        "__init__.py", "_version.py", "errors.py", "extras.py",
        "_njit.py", "_compiled.py", "_kernel_cache.py",
        "safe_io/__init__.py", "safe_io/trusted_folders.py",
    ):  # fmt: skip
        (package / name).parent.mkdir(exist_ok=True)
        shutil.copy(PACKAGE / name, package / name)
    (package / "_probe_kernels.py").write_text(
        "from pregao import numbers\nfrom pregao._njit import njit\n\n\n"
        "@njit\ndef answer():\n    return numbers.ANSWER\n"
    )
    (package / "numbers.py").write_text("ANSWER = 1\n")
    return package


def test_compiled_kernels_serve_the_same_sources_elsewhere(tmp_path):
    shown = []
    for name in ("here", "there"):
        package = small_package(tmp_path / name)
        environment = {"PYTHONPATH": str(package.parent), "PREGAO_CACHE_DIR": str(tmp_path)}
        result = run(environment, ANSWER)
        assert not result.stderr
        shown.append(result.stdout.split())
    assert shown == [["1", "0"], ["1", "1"]]


def test_a_kernel_follows_a_constant_of_another_file(tmp_path):
    package = small_package(tmp_path / "site")
    environment = {"PYTHONPATH": str(package.parent), "PREGAO_CACHE_DIR": str(tmp_path)}
    shown = []
    for constant in (1, 1, 2):
        (package / "numbers.py").write_text(f"ANSWER = {constant}\n")
        result = run(environment | {"PYTHONDONTWRITEBYTECODE": "1"}, ANSWER)
        assert not result.stderr
        shown.append(result.stdout.split())
    assert shown == [["1", "0"], ["1", "1"], ["2", "0"]]
    assert len(list((tmp_path / "numba").iterdir())) == 2


def aged(folder, days):
    (folder / "sbe_1").mkdir(parents=True)
    (folder / "sbe_1" / "kernel.nbi").write_text("")
    then = time.time() - 86_400 * days
    os.utime(folder, (then, then))
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PREGAO_CACHE_DIR", str(tmp_path))
    return tmp_path / "numba"


def test_a_new_folder_removes_those_unused_for_a_month(cache):
    unused = aged(cache / f"kernels-{OLD}", 31)
    half_gone = aged(cache / f".kernels-{OLD}.12.unused", 31)
    used = aged(cache / f"kernels-{'0' * 32}", 29)
    other = aged(cache / "others", 400)
    assert cache_folder(DIGEST) == cache / f"kernels-{DIGEST}"
    assert not unused.exists()
    assert not half_gone.exists()
    assert used.exists()
    assert other.exists()


def test_a_folder_that_is_used_again_is_kept(cache):
    folder = aged(cache / f"kernels-{OLD}", 400)
    assert cache_folder(OLD) == folder
    assert cache_folder(DIGEST) != folder
    assert (folder / "sbe_1" / "kernel.nbi").exists()


def test_what_cannot_be_removed_does_no_harm(cache, monkeypatch):
    unused = aged(cache / f"kernels-{OLD}", 31)

    def refused(*_arguments):
        raise PermissionError("refused")

    monkeypatch.setattr(Path, "rename", refused)
    assert cache_folder(DIGEST) == cache / f"kernels-{DIGEST}"
    assert unused.exists()


def test_a_kernel_outside_of_the_digest_is_compiled_without_a_cache():
    @_njit.njit
    def one():
        return 1

    assert one() == 1
    assert isinstance(one._cache, numba.core.caching.NullCache)
