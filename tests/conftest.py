"""What holds for all tests: the same cases of properties each time, one folder to clear."""

import os
import shutil
import tempfile

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

_FOLDER = tempfile.mkdtemp(prefix="pregao-tests-")
os.environ["TMPDIR"] = tempfile.tempdir = _FOLDER


def pytest_unconfigure():
    """Leave nothing behind: neither what tests made nor what their commands left."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
