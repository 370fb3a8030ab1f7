"""Numbers written as text without numba: digit for digit the same."""

import pytest

from pregao.cli import _kernels, _numpy_fallback
from tests.architecture.kernel_pairs import use_fallback
from tests.cli import test_cli_texts as texts


@pytest.fixture(autouse=True, scope="module")
def use_numpy_fallback():
    with pytest.MonkeyPatch.context() as patch:
        use_fallback(patch, _kernels, _numpy_fallback)
        yield


def test_numbers_are_written_exactly():
    texts.test_numbers_are_written_exactly()
