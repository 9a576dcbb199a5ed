"""The names of archives tell whole ones, the newest and outdated ones (kept_archives.py)."""

from __future__ import annotations

import pytest

from gateway.backups import kept_archives
from gateway.backups.kept_archives import KeptArchive

OTHERS = {
    "gw-south-2.000009.20261128T013000Z.10.tar.gz.age": 10,
    "gw.000009.20261128T013000Z.10.tar.gz.age": 10,
    "gw-south.letter": 10,
    "gw-south.9.20261128T013000Z.10.tar.gz.age": 10,
    "gw-south.000009.20261128T013000Z.010.tar.gz.age": 10,
    "gw-south.000009.20261128T013000Z.10.tar.gz": 10,
    "photos.zip": 10,
}
"""None of these is an archive of gw-south."""


def made(number: int, time: str = "20261128T013000Z", size_bytes: int = 500) -> KeptArchive:
    return KeptArchive(number, time, "gw-south", size_bytes)


def listed(*archives: KeptArchive) -> dict[str, int]:
    return {one.name: one.size_bytes for one in archives}


def test_a_name_says_what_it_was_made_of() -> None:
    assert made(42).name == "gw-south.000042.20261128T013000Z.500.tar.gz.age"
    assert kept_archives.parsed(made(42).name) == made(42)
    assert [name for name in OTHERS if kept_archives.parsed(name)] == list(OTHERS)[:2]


def test_the_newest_has_the_highest_number_whatever_its_clock_said() -> None:
    at_boot, real = made(8, "19700101T000012Z"), made(7, "20261128T013000Z")
    found = kept_archives.whole({**OTHERS, **listed(real, at_boot)}, "gw-south")
    assert found == [at_boot, real]


def test_what_is_cut_off_or_empty_does_not_count() -> None:
    there = {**listed(made(1)), made(2).name: 499, made(3).name: 0, made(4).name + ".part": 500}
    assert kept_archives.whole(there, "gw-south") == [made(1)]
    assert kept_archives.next_number(there, "gw-south", known=0) == 5


def test_a_number_is_used_once_also_where_the_place_or_the_card_was_emptied() -> None:
    assert kept_archives.next_number({}, "gw-south", known=41) == 42
    assert kept_archives.next_number({**OTHERS, **listed(made(41))}, "gw-south", known=0) == 42
    with pytest.raises(OverflowError, match="gw-south"):
        kept_archives.next_number(listed(made(999_999_999)), "gw-south", known=0)


def test_so_many_whole_ones_stay_and_nothing_goes_that_is_not_the_gateways() -> None:
    archives = [made(number) for number in range(1, 7)]
    there = {**OTHERS, **listed(*archives), made(3, size_bytes=900).name: 7}
    broken = f"{made(2, size_bytes=77).name}.part"
    there[broken] = 12
    gone = kept_archives.outdated(there, archives[-1], kept=3)
    assert set(gone) == {
        broken,
        made(3, size_bytes=900).name,
        *(one.name for one in archives[:3]),
    }
    assert len(gone) == 5


def test_broken_ones_displace_no_whole_one() -> None:
    old = [made(1), made(2)]
    there = {**listed(*old), **{made(number).name: 3 for number in range(3, 9)}, **listed(made(9))}
    assert not {one.name for one in old} & set(kept_archives.outdated(there, made(9), kept=3))


def test_nothing_goes_before_the_new_one_is_whole_nor_where_all_are_to_stay() -> None:
    there = listed(made(1), made(2))
    assert kept_archives.outdated({**there, made(3).name: 499}, made(3), kept=1) == []
    assert kept_archives.outdated({**there, **listed(made(3))}, made(3), kept=0) == []


def test_one_that_is_newer_is_left_to_who_made_it() -> None:
    there = listed(made(1), made(2), made(3))
    assert kept_archives.outdated(there, made(2), kept=1) == [made(1).name]
