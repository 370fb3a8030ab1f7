"""Columns made without numba: what the codec reads."""

import pytest

from pregao.sbe import _kernels, _numpy_fallback
from tests.architecture.kernel_pairs import use_fallback
from tests.sbe import test_sbe_agreement as agreement
from tests.sbe import test_sbe_properties as properties

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def numpy_fallback():
    with pytest.MonkeyPatch.context() as patch:
        use_fallback(patch, _kernels, _numpy_fallback)
        yield


@pytest.mark.parametrize(("protocol", "version"), [("umdf", 16), ("entrypoint", 6)])
def test_columns_and_codec_agree(protocol, version):
    agreement.test_kernels_and_codec_agree(protocol, version)
    agreement.test_blocks_of_other_senders_are_read_the_same(protocol, version)


def test_columns_and_codec_agree_on_any_schema():
    properties.test_kernels_and_codec_agree_on_any_schema()
