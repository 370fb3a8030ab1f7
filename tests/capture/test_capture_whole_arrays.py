"""Captures walked without numba: exactly what packet by packet gives."""

import pytest

from pregao.capture import _kernels, _numpy_fallback
from pregao.capture.layers import ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IPV4
from tests.architecture.kernel_pairs import use_fallback
from tests.capture import test_capture_bulk as bulk
from tests.capture import test_capture_stream_columns as streams

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def numpy_fallback():
    with pytest.MonkeyPatch.context() as patch:
        use_fallback(patch, _kernels, _numpy_fallback)
        yield


@pytest.mark.parametrize(
    "agree",
    [
        bulk.test_bulk_gives_exactly_what_packet_by_packet_gives,
        bulk.test_bulk_and_packet_by_packet_agree_on_damaged_captures,
        bulk.test_the_order_of_the_file_is_kept_between_kernel_and_plain_code,
        bulk.test_thousands_of_flows_keep_their_numbers,
        bulk.test_a_flood_of_flows_is_refused_with_advice,
        bulk.test_packets_before_a_damaged_record_are_given_before_the_error,
        bulk.test_a_raw_frame_shorter_than_its_headers_is_no_datagram,
        streams.test_bulk_streams_are_the_plain_ones,
    ],
)
def test_what_holds_for_the_kernel_holds_for_its_fallback(agree):
    agree()


@pytest.mark.parametrize("link_type", [ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IPV4])
def test_the_ordinary_case_needs_no_plain_code(monkeypatch, link_type):
    bulk.test_the_kernel_takes_the_ordinary_case_without_the_plain_code(monkeypatch, link_type)
