"""Numbers of the builds of a channel's day: above those of all before, though some are gone."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from pregao.lake.books.catalog import build_counts, guard_prefix, latest_build

DAY = date(2026, 5, 21)


class Guards:
    """A lake of which only the names of its units matter."""

    def __init__(self, names):
        self._names = names

    def claimed_with_prefix(self, prefix):
        return {name: unit for name, unit in self._names.items() if name.startswith(prefix)}


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_the_next_build_is_numbered_after_the_last(own, others):
    names = {f"{guard_prefix(DAY, 51)}{number}": f"unit {number}" for number in own}
    names |= {f"{guard_prefix(DAY, 5)}{number}": "other" for number in others}
    lake = Guards(names)
    after = max(own, default=-1) + 1
    assert latest_build(lake, DAY, 51) == (after, f"unit {after - 1}" if own else None)
    counts = build_counts(lake)
    assert (counts[DAY, 51], counts[DAY, 5]) == (after, max(others, default=-1) + 1)
