"""A history that gateways share keeps each one's newest rows, and as many as there is room for."""

from __future__ import annotations

import pytest

from cloud_ingest.fleet.fair_history import newest_of_each


def kept(rows: str, most: int, most_of_one: int = 99) -> str:
    """Rows are letters: a letter is a gateway; equal ones are told apart by where they stand."""
    numbered = list(enumerate(rows))
    found = newest_of_each(numbered, lambda row: row[1], most=most, most_of_one=most_of_one)
    assert found == sorted(found)
    for name in set(rows):
        own = [row for row in numbered if row[1] == name]
        staying = [row for row in found if row[1] == name]
        assert staying == own[len(own) - len(staying) :]
    return "".join(name for _, name in found)


@pytest.mark.parametrize(
    ("rows", "most", "most_of_one", "left"),
    [
        ("", 3, 3, ""),
        ("aabbb", 5, 99, "aabbb"),  # all that there is room for
        ("aabbb", 4, 99, "aabb"),
        ("abbbb", 4, 99, "abbb"),
        ("abbcccc", 6, 99, "abbccc"),
        ("abbccccc", 5, 99, "abbcc"),
        ("aaabbbccc", 7, 99, "aabbcc"),  # equal ones give up equally
        ("aabbb", 9, 2, "aabb"),
        ("aabbb", 9, 1, "ab"),
        ("abcd", 3, 99, "bcd"),  # not even one row of each: the newest stay
        ("abcd", 4, 99, "abcd"),
        ("aabbccdd", 3, 99, "bcd"),
    ],
)
def test_the_newest_rows_stay_and_who_has_most_gives_room_first(
    rows: str, most: int, most_of_one: int, left: str
) -> None:
    assert kept(rows, most, most_of_one) == left


def test_a_quota_is_the_greatest_for_which_there_is_room() -> None:
    for a in range(1, 5):
        for b in range(a, 5):
            for most in range(2, 10):
                found = kept("a" * a + "b" * b, most)
                quota = max(q for q in range(1, 6) if min(a, q) + min(b, q) <= most)
                assert found == "a" * min(a, quota) + "b" * min(b, quota)
