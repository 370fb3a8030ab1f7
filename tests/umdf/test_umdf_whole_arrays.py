"""Packets walked and counted without numba: what one packet at a time gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.umdf import _kernels, _numpy_fallback
from pregao.umdf.survey import _kernels as survey_kernels
from pregao.umdf.survey import _numpy_fallback as survey_arrays
from tests.architecture.kernel_pairs import use_fallback
from tests.umdf import test_umdf_packets as packets
from tests.umdf import test_umdf_survey as survey

pytestmark = pytest.mark.slow

HEADERS = (np.int16, np.int32, np.int64, np.int64)


@pytest.fixture(autouse=True, scope="module")
def original_kernel():
    with pytest.MonkeyPatch.context() as patch:
        kernel = _kernels.read_headers
        use_fallback(patch, _kernels, _numpy_fallback)
        use_fallback(patch, survey_kernels, survey_arrays)
        yield kernel


@pytest.mark.parametrize(
    "agree",
    [
        packets.test_bulk_and_single_decoding_agree,
        packets.test_more_kinds_than_the_kernel_distinguishes,
        packets.test_any_payload_is_safe,
        survey.test_messages_are_counted_by_line_kind_and_version,
        survey.test_noise_in_the_headers_is_counted_without_growing,
        survey.test_a_peak_counts_packets_slightly_out_of_order_where_they_belong,
        survey.test_peaks_are_the_largest_counts_of_any_span,
    ],
)
def test_what_holds_for_the_kernel_holds_for_its_fallback(agree):
    agree()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=24), max_size=8))
def test_headers_are_those_that_the_kernel_reads(original_kernel, payloads):
    lengths = np.array([len(each) for each in payloads], np.int32)
    offsets = np.cumsum(lengths, dtype=np.int64) - lengths
    buffer = np.frombuffer(b"".join(payloads) + bytes(16), np.uint8)
    found = []
    for read in (original_kernel, _numpy_fallback.read_headers):
        columns = [np.empty(len(payloads), kind) for kind in HEADERS]
        read(buffer, offsets, lengths, *columns)
        found.append([column.tolist() for column in columns])
    assert found[0] == found[1]
