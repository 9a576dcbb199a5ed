"""A set of ids is one, and small where they stand together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resource_directory.id_set import IdSet
from tests.held_objects import held_objects


@given(st.lists(st.one_of(st.integers(0, 600), st.integers(0, 1 << 60))))
def test_an_id_is_new_once(ids: list[int]) -> None:
    seen, some = set[int](), IdSet()
    for one in ids:
        assert some.add(one) == (one not in seen)
        seen.add(one)


def test_ids_that_stand_together_take_little() -> None:
    some = IdSet()
    for one in range(100_000):
        some.add(one)
    assert held_objects(some) < 1_000
