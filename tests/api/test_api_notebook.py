"""The quick-start notebook runs from its first cell to its last, and shows pictures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pregao

pytestmark = pytest.mark.slow

EXAMPLES = Path(pregao.__file__).parents[2] / "examples"


def test_the_notebook_runs(tmp_path):
    """Run in a separate process, because it starts a kernel."""
    code = (
        "import sys, nbformat\n"
        "from nbclient import NotebookClient\n"
        "book = nbformat.read(sys.argv[1], as_version=4)\n"
        "NotebookClient(book, timeout=120, kernel_name='python3').execute()\n"
        "kinds = {kind for cell in book.cells if cell.cell_type == 'code'"
        " for out in cell.outputs for kind in out.get('data', {})}\n"
        "assert 'image/png' in kinds, kinds\n"
    )
    notebook = EXAMPLES / "quick_start.ipynb"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(notebook)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
