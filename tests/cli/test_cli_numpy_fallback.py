"""Numbers written as text without numba: digit for digit the same."""

import pytest

from pregao.cli import _kernels, _numpy_fallback
from tests.architecture.kernel_pairs import use_twins
from tests.cli import test_cli_texts as texts


@pytest.fixture(autouse=True, scope="module")
def twins():
    with pytest.MonkeyPatch.context() as patch:
        use_twins(patch, _kernels, _numpy_fallback)
        yield


def test_numbers_are_written_exactly():
    texts.test_numbers_are_written_exactly()
