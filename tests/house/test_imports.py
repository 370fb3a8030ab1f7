"""The import rules of the house hold."""

from importlinter.cli import lint_imports


def test_a_folder_imports_only_from_folders_above_it(capsys):
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out
