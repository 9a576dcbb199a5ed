"""Goal: a repeated request is not carried out twice, and remembering costs a fixed amount."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.coap.message_layer import RecentMessages


def test_a_request_is_remembered_for_its_lifetime() -> None:
    recent = RecentMessages(10)
    assert not recent.is_live(("peer", 1), 0.0)
    recent.remember(("peer", 1), 0.0, 247.0)
    assert recent.is_live(("peer", 1), 246.0)
    assert not recent.is_live(("peer", 1), 247.0)
    assert not recent.is_live(("peer", 2), 1.0)
    assert not recent.is_live(("other", 1), 1.0)


def test_beyond_the_limit_the_oldest_is_forgotten() -> None:
    recent = RecentMessages(2)
    for number in (1, 2, 3):
        recent.remember(("peer", number), float(number), 247.0)
    assert [number for number in (1, 2, 3) if recent.is_live(("peer", number), 4.0)] == [2, 3]
    assert len(recent) == 2


@given(
    keys=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=60),
    size_max=st.integers(1, 4),
)
def test_no_order_of_requests_exceeds_the_limit(keys: list[tuple[str, int]], size_max: int) -> None:
    recent = RecentMessages(size_max)
    for now, key in enumerate(keys):
        if not recent.is_live(key, now):
            recent.pop(key, None)
            recent.remember(key, now, 3.0)
        assert len(recent) <= size_max
        assert recent.is_live(key, now)
