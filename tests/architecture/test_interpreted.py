"""Kernels give the same results compiled and interpreted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao import _compiled, _interpreted

WORDS = st.integers(0, 2**64 - 1)
EVERY = ["load_u8", "load_u16", "load_u32", "load_i32", "load_u64", "load_i64"]
OF_A_WORD = ["leading_zeros", "trailing_zeros", "swapped"]


def compiled(name):
    """The compiled form, as a function that Python can call."""
    inner = getattr(_compiled, name)

    def load(array, index):
        return inner(array, index)

    def work(word):
        return inner(word)

    return _compiled.njit(load if name.startswith("load") else work)


LOADS = {name: compiled(name) for name in EVERY}
WORKS = {name: compiled(name) for name in OF_A_WORD}


@given(st.binary(min_size=8, max_size=24), st.data())
def test_numbers_are_read_at_any_offset(content, data):
    offset = data.draw(st.integers(0, len(content) - 8))
    array = np.frombuffer(bytearray(content), np.uint8)
    for name, load in LOADS.items():
        assert getattr(_interpreted, name)(array, offset) == load(array, offset), name


@given(WORDS)
def test_words_are_compared_alike(word):
    for name, work in WORKS.items():
        assert getattr(_interpreted, name)(np.uint64(word)) == work(np.uint64(word)), name


@given(WORDS, st.integers(0, 5))
def test_a_word_is_stored_anywhere(word, offset):
    array = np.zeros(13, np.uint8)
    _interpreted.store_u64(array, offset, np.uint64(word))
    assert int(_interpreted.load_u64(array, offset)) == word


def mixed(words, small, count):
    """Reckons with numbers of several sizes, which wrap around or widen."""
    total = np.uint64(0)
    for index in range(count):
        total = (total ^ words[index]) * np.uint64(0x9E3779B97F4A7C15)
        total += np.uint64((small[index] << 8) + small[index])
        small[index] = small[index] >> 1
    return total


@given(st.lists(st.tuples(WORDS, st.integers(0, 255)), max_size=5))
def test_kernels_reckon_alike(rows):
    results = []
    for njit in (COMPILED, _interpreted.njit(mixed)):
        words = np.array([word for word, _ in rows], np.uint64)
        small = np.array([number for _, number in rows], np.uint8)
        results.append((int(njit(words, small, len(rows))), small.tolist()))
    assert results[0] == results[1]


COMPILED = _compiled.njit(mixed)


@pytest.mark.parametrize(
    ("view", "kind"), [("words_at", np.int64), ("halves_at", np.int32), ("bytes_at", np.uint8)]
)
def test_memory_is_viewed_as_an_array(view, kind):
    memory = np.arange(5, dtype=kind)
    viewed = getattr(_interpreted, view)(memory.ctypes.data, 5)
    viewed[2] = 100
    assert memory.tolist() == [0, 1, 100, 3, 4]
    assert [viewed[index] for index in range(5)] == memory.tolist()


def test_a_kernel_returns_arrays_as_given():
    tail = _interpreted.njit(lambda array: (array[1:], array[0]))
    found, first = tail(np.arange(3, dtype=np.uint8))
    assert type(found) is np.ndarray
    assert (found.tolist(), first) == ([1, 2], 0)
