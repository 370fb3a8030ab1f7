"""Import rules between packages."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pregao

ROOT = Path(pregao.__file__).parent


def test_a_package_imports_only_from_packages_below_it():
    # In a separate process: the linter switches off every existing logger.
    lint = "import sys; from importlinter.cli import lint_imports as lint"
    code = f"{lint}; sys.exit(lint(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT.parents[1],
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imported(source):
    """Yield every module, and every name of a module, that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_underscore_modules_are_imported_by_their_own_package_only():
    for path in ROOT.rglob("*.py"):
        inside = ".".join(path.relative_to(ROOT.parent).parent.parts) + "."
        for name in imported(path.read_text()):
            if name.startswith("pregao."):
                owner = name.partition("._")[0] + "."
                assert "._" not in name or inside.startswith(owner), (path, name)


@pytest.mark.parametrize(
    "package",
    [
        "pregao",
        "pregao.capture",
        "pregao.entrypoint",
        "pregao.lake",
        "pregao.live",
        "pregao.plot",
    ],
)
def test_a_facade_has_the_names_it_exports(package):
    module = import_module(package)
    assert len(module.__doc__) > 40
    for name in getattr(module, "__all__", None) or module._HOME:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = module.nothing_of_that_name


@pytest.mark.parametrize(
    "module",
    [
        "pregao",
        "pregao.api",
        "pregao.sbe",
        "pregao.fast",
        "pregao.schemas",
        "pregao.cli.main",
        "pregao.web",
    ],
)
def test_arrow_and_numba_are_loaded_on_first_use(module):
    code = (
        f"import sys, {module}; print(sorted({{'numba', 'numpy', 'pyarrow'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
