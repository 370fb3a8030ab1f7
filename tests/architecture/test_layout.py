"""Layout of the package: names that exist once, folders that stay small, facades that stay lazy."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import pregao

ROOT = Path(pregao.__file__).parent
STRINGS = re.compile(r"""\s*(".*"|'.*'),?""")
MAX_MODULES = 620
MAX_MODULES_IN_A_FOLDER = 30
FACADES = {
    "pregao": set(),
    # `capture` is small and has no optional dependency: it imports its modules eagerly.
    "pregao.capture": None,
    # The function `messages` has the name of its module, so it cannot be imported lazily.
    "pregao.entrypoint": {"framing", "messages"},
    "pregao.lake": set(),
    "pregao.live": set(),
    "pregao.plot": set(),
}
"""Packages whose `__init__` lists names, with the modules of theirs that it imports at once."""


BLOCK = 10
"""Lines that may not stand twice."""
REPEATED_IN = {
    "capture/_kernels.py": "one loop for pcap and pcapng would branch per packet",
    "fast/_kernels.py": "one branch for numbers and texts would branch per field",
    "lake/storage/fast_parquet/_decoding_kernels.py": "labels and their values: one pass each",
}
"""Kernels that repeat a block within their module, with the reason."""


def modules():
    return sorted(ROOT.rglob("*.py"))


def code_lines(path):
    """The lines of a module with their numbers, without empty ones, imports and string tables."""
    importing = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if importing:
            importing = "" if ")" in line else importing
        elif line.lstrip().startswith(("import ", "from ")):
            importing = "(" if line.endswith("(") else ""
        elif line.strip() and not STRINGS.fullmatch(line):
            yield number, line.rstrip()


def repeated_blocks(paths):
    """Places of blocks that stand twice or more, from the first line at which they agree."""
    first, last, found = {}, None, []
    for path in paths:
        name, lines = path.relative_to(ROOT).as_posix(), list(code_lines(path))
        for at in range(len(lines) - BLOCK + 1):
            block = tuple(text for _, text in lines[at : at + BLOCK])
            other = first.setdefault(block, (name, lines[at][0]))
            if other == (name, lines[at][0]):
                continue
            if last is None or (last[0], last[2]) != (other[0], name) or last[4] != at - 1:
                found.append((other, (name, lines[at][0])))
            last = (other[0], other[1], name, lines[at][0], at)
    return found


def test_no_block_of_ten_lines_stands_twice():
    found = [
        f"{one[0]}:{one[1]} = {other[0]}:{other[1]}"
        for one, other in repeated_blocks(modules())
        if not one[0] == other[0] in REPEATED_IN
    ]
    assert found == [], "write what they share once"


def test_a_repeated_block_is_found_between_modules_and_within_one(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    lines = [f"a{n} = {n}" for n in range(12)]
    for name, text in (
        ("one.py", ["import ast", *lines, "", "x = 1", *lines[:BLOCK]]),
        ("other.py", [*lines[2:], "import ast", *lines[1:9]]),
        ("strings.py", ["T = (", *(f'    "{n}",' for n in range(20)), ")"]),
        ("table.py", ["T = (", *(f'    "{n}",' for n in range(20)), ")"]),
    ):
        (tmp_path / name).write_text("\n".join(text))
    assert repeated_blocks(sorted(tmp_path.glob("*.py"))) == [
        (("one.py", 2), ("one.py", 16)),
        (("one.py", 4), ("other.py", 1)),
    ]


def test_a_public_class_is_defined_in_one_module():
    homes = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert len(homes) > 1_000
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_folders_and_the_package_stay_small():
    sizes = defaultdict(int)
    for path in modules():
        sizes[path.parent] += 1
    assert {
        str(at.relative_to(ROOT)): n for at, n in sizes.items() if n > MAX_MODULES_IN_A_FOLDER
    } == {}
    assert 500 < sum(sizes.values()) <= MAX_MODULES


def package_of(path):
    return ".".join(path.relative_to(ROOT.parent).parent.parts)


def test_a_package_is_a_docstring_unless_it_is_a_facade():
    found = {}
    for path in modules():
        if path.name == "__init__.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            assert ast.get_docstring(tree), path
            found[package_of(path)] = len(tree.body) > 1
    assert {name for name, has_code in found.items() if has_code} == set(FACADES)


def imports(nodes):
    """Names that `from … import` statements import, with the module that defines each."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("pregao"):
            for alias in node.names:
                is_module = node.module == "pregao"  # a subpackage, such as `pregao.plot`
                found[alias.name] = f"pregao.{alias.name}" if is_module else node.module
    return found


def declared(package):
    """The names that a facade imports at once, and those that it imports on first use."""
    tree = ast.parse(Path(import_module(package).__file__).read_text(encoding="utf-8"))
    for_type_checkers = [node.body for node in tree.body if isinstance(node, ast.If)]
    return imports(tree.body), imports(node for body in for_type_checkers for node in body)


@pytest.mark.parametrize("package", FACADES)
def test_a_facade_lists_each_name_that_it_imports_once(package):
    facade = import_module(package)
    eager, lazy = declared(package)
    names = getattr(facade, "__all__", None) or list(facade._HOME)
    assert len(names) == len(set(names)) > 3
    # `imported` is the guard that names a missing extra.
    assert set(names) == (set(eager) | set(lazy)) - {"imported"}


@pytest.mark.parametrize("package", [name for name, eager in FACADES.items() if eager is not None])
def test_a_facade_imports_its_modules_on_first_use(package):
    # In a new process: this one has imported them.
    code = f"import sys, {package}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    homes = set(declared(package)[1].values())
    eager = {f"{package}.{module}" for module in FACADES[package]}
    assert homes - eager
    assert homes & set(done.stdout.split()) == eager & homes
